"""The admin in its theme: signing in, making a key, and every list; nothing comes from another host."""

from __future__ import annotations

import re

import pytest

from accounts import keys, services
from accounts.models import ApiKey
from tests.browser.conftest import PASSWORD, PHONE, serious_faults

pytestmark = pytest.mark.django_db(transaction=True)
LISTS = (
    "accounts/apikey",
    "auth/user",
    "auth/group",
    "accounts/team",
    "inference/modelrow",
    "inference/modelprice",
    "inference/alert",
    "accounts/administrativechange",
)


def signed_in(page):
    page.goto("/admin/")
    page.fill("input[name=username]", "root")
    page.fill("input[name=password]", PASSWORD)
    page.press("input[name=password]", "Enter")
    page.wait_for_selector("#nav-sidebar, #page")
    return page


def test_a_key_is_made_and_shown_once(root, ann, watched, shot) -> None:
    page = watched()
    page.goto("/admin/")
    shot(page, "admin-login")
    signed_in(page)
    shot(page, "admin-index")
    page.goto(f"/admin/accounts/apikey/add/?user={ann.pk}")
    page.fill("input[name=name]", "laptop")
    shot(page, "admin-key-add")
    page.click("button[name=_save]")
    shown = page.input_value("#new-api-key")
    shot(page, "admin-key-shown")
    assert keys.is_well_formed(shown)
    assert ApiKey.objects.get().digest == keys.digest_of(shown)
    page.click("text=I have copied it")
    assert shown not in page.content()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_list_and_the_steps_of_a_key_are_pages_of_the_theme(root, ann, watched, shot, scheme) -> None:
    row, _ = services.api_key_create(user=ann, name="laptop")
    page = signed_in(watched(scheme=scheme))
    for name in LISTS:
        page.goto(f"/admin/{name}/")
        assert page.locator("#nav-sidebar, #page").count()
        shot(page, f"admin-{name.replace('/', '-')}-{scheme}")
    for step in ("change", "revoke", "rotate"):
        page.goto(f"/admin/accounts/apikey/{row.pk}/{step}/")
        shot(page, f"admin-key-{step}-{scheme}")
    page.click("button:has-text('Rotate')")
    assert re.match(r"sk-skippy-", page.input_value("#new-api-key"))
    # The page tells no path as Referer, and its forms still come from us.
    with page.expect_response("**/logout/") as answer:
        page.evaluate("document.querySelector('form[action*=logout]').submit()")
    assert answer.value.status in (200, 302)


def test_axe_finds_nothing_serious(root, ann, watched) -> None:
    row, _ = services.api_key_create(user=ann, name="laptop")
    page = watched()
    page.goto("/admin/")
    assert serious_faults(page) == []
    signed_in(page)
    for name in (
        "",
        "accounts/apikey/",
        "accounts/apikey/add/",
        f"accounts/apikey/{row.pk}/change/",
        f"accounts/apikey/{row.pk}/rotate/",
        "auth/user/add/",
        "inference/modelrow/add/",
        "inference/modelprice/add/",
        "hooks/hookpolicy/add/",
    ):
        page.goto(f"/admin/{name}")
        page.wait_for_load_state("networkidle")
        assert serious_faults(page) == [], name


def test_it_can_be_used_on_a_phone(root, ann, watched, shot) -> None:
    services.api_key_create(user=ann, name="laptop")
    page = signed_in(watched(size=PHONE))
    page.goto("/admin/accounts/apikey/")
    shot(page, "admin-keys-phone")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
