"""Signing in, in Chromium: too many tries, a second factor set up and used, and one that is required."""

from __future__ import annotations

import pytest

from accounts.models import SignInAttempts
from accounts.role_groups import role_groups_ensure
from tests.browser.conftest import DESKTOP, PASSWORD, PHONE, log_in, serious_faults
from tests.totp_app import TotpApp

pytestmark = pytest.mark.django_db(transaction=True)
LOOKS = [(DESKTOP, "light"), (PHONE, "dark")]


def fits(page) -> bool:
    return page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_the_story_of_a_second_factor(root, watched, shot, settings) -> None:
    settings.SECOND_FACTOR_RULE = "administrators"
    page = watched()
    page.goto("/admin/auth/user/")
    page.wait_for_url("**/console/login/?next=/admin/auth/user/")
    log_in(page, "root")
    # Nothing else opens before it is set up.
    page.wait_for_url("**/console/account/security/")
    page.get_by_role("link", name="Usage").click()
    page.wait_for_url("**/console/account/security/")
    page.get_by_role("link", name="Set it up").click()
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Go on").click()
    page.wait_for_url("**/security/set-up/")
    app = TotpApp(page.locator("#secret").inner_text())
    page.get_by_label("Code that the app shows").fill("12345")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=This code is not right")
    page.get_by_label("Code that the app shows").fill(app.code())
    page.get_by_role("button", name="Switch it on").click()
    page.wait_for_url("**/security/codes/")
    codes = page.locator("#codes").inner_text().split()
    assert len(codes) == 10
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert download.value.path().read_text().split() == codes
    page.get_by_role("link", name="I have kept them").click()
    page.wait_for_url("**/console/")
    for way in ("app", "recovery", "recovery again"):
        page.get_by_role("button", name="Log out").click()
        page.wait_for_url("**/console/login/")
        log_in(page, "root")
        page.wait_for_url("**/console/login/code/")
        page.get_by_label("Code").fill(app.code(later=1) if way == "app" else codes[0])
        page.get_by_role("button", name="Go on").click()
        if way == "recovery again":
            page.wait_for_selector("text=was used already")
            shot(page, "code-refused")
            page.get_by_role("button", name="Log in as somebody else").click()
            page.wait_for_url("**/console/login/")
            break
        page.wait_for_url("**/console/")


@pytest.mark.parametrize("look", LOOKS)
def test_every_page_fits_and_axe_finds_nothing_serious(root, watched, shot, browser, look) -> None:
    size, scheme = look
    look = f"{'phone' if size is PHONE else 'desktop'}-{scheme}"
    page = watched(size=size, scheme=scheme)
    page.goto("/console/login/")
    log_in(page, "root")
    page.wait_for_url("**/console/")

    def looked_at(name: str) -> None:
        shot(page, f"{name}-{look}")
        assert serious_faults(page) == [], name
        assert fits(page), name

    for name, path in (("account", "account/"), ("security-off", "account/security/")):
        page.goto(f"/console/{path}")
        looked_at(name)
    page.goto("/console/account/security/set-up/")
    looked_at("again")
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_selector(".qr")
    looked_at("set-up")
    app = TotpApp(page.locator("#secret").inner_text())
    page.get_by_label("Code that the app shows").fill(app.code())
    page.keyboard.press("Enter")
    page.wait_for_selector("#codes")
    looked_at("codes")
    for name, path in (
        ("security-on", "account/security/"),
        ("remove", "account/security/remove/"),
        ("new-codes", "account/security/codes/new/"),
        ("password", "account/password/"),
        ("email", "account/email/"),
    ):
        page.goto(f"/console/{path}")
        looked_at(name)
    page.goto("/console/")
    if size is PHONE:
        page.get_by_role("button", name="Menu").click()
    page.get_by_role("button", name="Log out").click()
    page.wait_for_url("**/console/login/")
    log_in(page, "root")
    page.wait_for_url("**/console/login/code/")
    looked_at("code")
    SignInAttempts.objects.all().delete()
    # A page that answers 429 is an error in the browser's console, so not in one that is watched.
    login = page.url.removesuffix("code/")
    context = browser.new_context(viewport=size, color_scheme=scheme)
    page = context.new_page()
    for number in range(10):
        page.goto(login)
        log_in(page, "root", "wrong")
        page.wait_for_selector("[role=alert]")
        if number == 0:
            looked_at("login-wrong")
        if page.get_by_role("heading", name="Too many tries").is_visible():
            break
    assert number == 5
    looked_at("too-many")
    context.close()


def test_by_a_provider_and_back(transactional_db, browser, live_server, settings, shot) -> None:
    from tests.integration.sign_in.test_provider import ANN, configure
    from tests.oidc_provider import oidc_provider

    role_groups_ensure()
    with oidc_provider() as provider:
        provider.person = dict(ANN)
        configure(settings, provider, oidc_creates_users="yes")
        context = browser.new_context(viewport=DESKTOP, base_url=live_server.url)
        page = context.new_page()
        page.goto("/console/requests/")
        shot(page, "login-with-provider")
        assert serious_faults(page) == []
        page.get_by_role("button", name="Log in with Our provider").click()
        page.wait_for_url("**/console/requests/")
        assert page.locator(".who-name").inner_text() == "ann"
        context.close()
