"""A policy from the first word to its history, by somebody with a browser."""

from __future__ import annotations

import pytest

from hooks.models import HookPolicy
from hooks.services.policies import policies_add_examples
from hooks.services.replay_slices import replay_advance, replay_finish
from tests.browser.conftest import serious_faults
from tests.browser.test_admin import signed_in
from tests.integration.hooks.past import chat, past

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
        "hookpolicy/try/",
        "hookpolicy/replays/",
        f"hookpolicy/{HookPolicy.objects.all()[0].pk}/history/",
        "webhook/",
        "webhook/add/",
    ):
        page.goto(f"/admin/hooks/{name}")
        shot(page, f"hooks-{name.replace('/', '-')}")
        assert serious_faults(page) == [], name


def test_a_draft_is_replayed_with_progress_and_its_numbers_add_up(root, watched, shot, settings) -> None:
    """Slices are done here, so that the page is seen before, between and behind them."""
    settings.HOOK_TASK_SENDER = "tests.integration.hooks.test_replays.note_sent"
    for minute in range(1, 7):
        past(chat("my salary" if minute % 2 else "the weather"), minutes=minute)
    past()
    past(endpoint="embeddings", finish_reason="")
    policy = HookPolicy.objects.create(name="no salaries", actions=[{"type": "deny", "message": "Not here."}])
    page = signed_in(watched())
    page.goto(f"/admin/hooks/hookpolicy/{policy.pk}/change/")
    page.fill("textarea[name=condition]", 'has_word(text.input, "salary")')
    with page.context.expect_page() as opened:
        page.get_by_role("button", name="Replay it over past requests").click()
    page = opened.value
    page.get_by_label("Requests of").select_option("hour")
    assert serious_faults(page) == []
    page.get_by_role("button", name="Replay", exact=True).click()
    page.wait_for_url("**/replays/*/")
    assert "Waiting for its turn" in page.inner_text("#replay-progress [role=status]")
    replay_id = int(page.url.rstrip("/").rpartition("/")[2])
    for num_done in range(1, 4):
        assert replay_advance(replay_id=replay_id, slice_s=0)
        page.wait_for_function(f"document.getElementById('num-records').innerText === '{num_done}'")
    assert "Running" in page.inner_text("#replay-progress [role=status]")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("Cancelled: these are the numbers until then.").wait_for()
    page.get_by_role("button", name="Go on").click()
    page.get_by_text("Waiting for its turn").wait_for()
    replay_finish(replay_id=replay_id, told=lambda _: None)
    page.get_by_text("Done.").wait_for()
    shot(page, "policy-replay")
    names = ("records", "full", "by-condition", "not-evaluated", "unasked", "matched", "unmatched", "failed")
    found = {name: int(page.inner_text(f"#num-{name}")) for name in names}
    assert (
        found["records"]
        == 8
        == sum(found[name] for name in ("full", "by-condition", "not-evaluated", "unasked"))
    )
    assert found["matched"] + found["unmatched"] + found["failed"] == found["full"] + found["by-condition"]
    assert (found["full"], found["matched"], found["not-evaluated"], found["unasked"]) == (6, 3, 1, 1)
    assert page.get_by_role("region", name="Examples").locator("tbody tr").count() == 3
    assert serious_faults(page) == []
    assert HookPolicy.objects.get().condition == ""
