"""A policy from the first word to its history, by somebody with a browser."""

from __future__ import annotations

import pytest

from hooks.models import HookPolicy
from hooks.services.policies import policies_add_examples
from tests.browser.conftest import serious_faults
from tests.browser.test_admin import signed_in

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_policy_is_written_corrected_and_switched_on(root, watched, shot) -> None:
    page = signed_in(watched())
    page.goto("/admin/hooks/hookpolicy/add/")
    page.fill("input[name=name]", "no salaries")
    page.fill("textarea[name=condition]", 'has_word(text.input, "salary"')
    page.fill("textarea[name=actions]", '[{"type": "deny", "message": "Not here."}]')
    page.click("button[name=_save]")
    shot(page, "policy-refused")
    assert page.input_value("textarea[name=condition]") == 'has_word(text.input, "salary"'
    page.fill("textarea[name=condition]", 'has_word(text.input, "salary")')
    page.click("button[name=_save]")
    page.wait_for_url("**/hookpolicy/")
    row = HookPolicy.objects.get()
    assert (row.mode, row.actions[0]["status"]) == ("off", 403)

    page.goto(f"/admin/hooks/hookpolicy/{row.pk}/change/")
    shot(page, "policy-change")
    assert page.input_value("textarea[name=actions]").startswith("[\n")
    page.select_option("select[name=mode]", "enforce")
    page.click("button[name=_save]")
    page.wait_for_url("**/hookpolicy/")
    assert HookPolicy.objects.get().mode == "enforce"
    page.goto(f"/admin/hooks/hookpolicy/{row.pk}/history/")
    shot(page, "policy-history")
    assert '"off" → "enforce"' in page.inner_text("body")


def test_axe_finds_nothing_serious(root, watched, shot) -> None:
    policies_add_examples()
    page = signed_in(watched())
    for name in (
        "hookpolicy/",
        "hookpolicy/add/",
        f"hookpolicy/{HookPolicy.objects.all()[0].pk}/history/",
        "webhook/",
        "webhook/add/",
    ):
        page.goto(f"/admin/hooks/{name}")
        shot(page, f"hooks-{name.replace('/', '-')}")
        assert serious_faults(page) == [], name
