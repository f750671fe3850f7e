"""Somebody is invited, sets his password from the link, and sees the console; all in Chromium."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from accounts.models import PasswordLink
from tests.browser.conftest import PASSWORD, PHONE, log_in, serious_faults

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def boss(transactional_db):
    from accounts.role_groups import role_groups_ensure, role_set
    from accounts.roles import Role

    role_groups_ensure()
    user = User.objects.create_user("boss", password=PASSWORD)
    role_set(user=user, role=Role.OPERATOR)
    return user


def test_an_invitation_from_its_making_to_the_console(boss, watched, shot) -> None:
    page = watched()
    page.goto("/console/login/")
    log_in(page, "boss")
    page.wait_for_url(lambda url: "/login/" not in url)
    page.goto("/admin/accounts/passwordlink/add/")
    shot(page, "people-invite")
    assert serious_faults(page) == []
    page.get_by_label("User name").fill("newcomer")
    page.get_by_label("E-mail").fill("newcomer@example.org")
    page.get_by_role("button", name="Invite", exact=True).click()
    page.wait_for_selector("#new-link")
    shot(page, "people-link")
    assert serious_faults(page) == []
    page.get_by_role("button", name="Copy", exact=True).click()
    page.wait_for_function("document.querySelector('[data-copy-status]').textContent === 'Copied'")
    link = page.input_value("#new-link")

    person = watched(size=PHONE, scheme="dark")
    referers: list[str] = []
    person.on("request", lambda asked: referers.append(asked.headers.get("referer", "")))
    for _ in range(2):
        person.goto(link)
    shot(person, "people-welcome-phone-dark")
    assert serious_faults(person) == []
    person.get_by_label("New password", exact=True).fill("short")
    person.get_by_label("New password confirmation").fill("short")
    person.get_by_role("button", name="Set the password").click()
    person.wait_for_selector(".errorlist")
    shot(person, "people-welcome-refused")
    assert serious_faults(person) == []
    person.get_by_label("New password", exact=True).fill("a password of mine")
    person.get_by_label("New password confirmation").fill("a password of mine")
    person.get_by_role("button", name="Set the password").click()
    person.wait_for_url("**/login/**")
    assert person.get_by_text("Your password is set").is_visible()
    shot(person, "people-set")
    log_in(person, "newcomer", "a password of mine")
    person.wait_for_url("**/console/start/")
    person.get_by_role("button", name="Menu").click()
    assert not person.get_by_role("link", name="Users").is_visible()
    assert person.get_by_role("link", name="Usage", exact=True).is_visible()
    shot(person, "people-console")
    assert not any("sl-skippy" in referer for referer in referers)

    page.get_by_role("link", name="I have copied it").click()
    page.goto("/admin/accounts/passwordlink/?state=all")
    assert "newcomer" in page.content()
    assert link.rstrip("/").rpartition("/")[2] not in page.content()
    shot(page, "people-list")
    assert serious_faults(page) == []


def test_a_link_that_does_not_open_says_what_to_do(browser, live_server, shot, transactional_db) -> None:
    from accounts import password_tokens

    context = browser.new_context(base_url=live_server.url)
    try:
        page = context.new_page()
        answer = page.goto(f"/console/welcome/{password_tokens.mint().plaintext}/")
        assert answer is not None
        assert answer.status == 404
        assert page.get_by_role("heading", name="This link does not open").is_visible()
        shot(page, "people-closed")
        assert serious_faults(page) == []
    finally:
        context.close()
    assert not PasswordLink.objects.exists()
