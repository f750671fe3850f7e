"""The main stories with a keyboard alone, and that one always sees where one is."""

from __future__ import annotations

from typing import Any

import pytest

from accounts import keys
from accounts.models import ApiKey
from accounts.scopes import DEFAULT_SCOPES
from hooks.models import HookPolicy
from tests.browser.test_console import signed_in

pytestmark = pytest.mark.django_db(transaction=True)
MAX_TABS = 120
_FOCUSED = """() => {
  const one = document.activeElement, look = getComputedStyle(one), box = one.getBoundingClientRect();
  const label = one.labels && one.labels.length ? one.labels[0].textContent : '';
  const isSeen =
    (parseFloat(look.outlineWidth) > 0 && look.outlineStyle !== "none") || look.boxShadow !== "none";
  return {
    name: (one.getAttribute('aria-label') || label || one.textContent || '').trim().replace(/\\s+/g, ' '),
    isSeen: isSeen && box.width > 0 && box.height > 0,
    what: one.outerHTML.slice(0, 160),
  };
}"""


def tab_to(page: Any, name: str, unseen: list[str]) -> None:
    """Press Tab until what has this name has the focus; what one cannot see on the way is noted."""
    for _ in range(MAX_TABS):
        page.keyboard.press("Tab")
        focused = page.evaluate(_FOCUSED)
        if not focused["isSeen"] and "<body" not in focused["what"]:
            unseen.append(focused["what"])
        if focused["name"].startswith(name):
            return
    raise AssertionError(f"{name!r} is not reached")


def test_a_key_is_made_and_copied(root, watched) -> None:
    page, unseen = signed_in(watched(), "root"), []
    page.goto("/console/start/")
    tab_to(page, "Make a key", unseen)
    page.keyboard.press("Enter")
    page.wait_for_selector("input[name=name]")
    tab_to(page, "Skip to the content", unseen)
    page.keyboard.press("Enter")
    tab_to(page, "Name", unseen)
    page.keyboard.type("laptop")
    page.keyboard.press("Enter")
    page.wait_for_selector("#new-api-key")
    assert keys.is_well_formed(page.input_value("#new-api-key"))
    assert ApiKey.objects.get().granted_scopes() == DEFAULT_SCOPES
    tab_to(page, "Copy", unseen)
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelector('[data-copy-status]').textContent !== ''")
    assert unseen == []


def test_usage_is_narrowed_and_a_policy_written(root, watched) -> None:
    page, unseen = signed_in(watched(), "root"), []
    page.goto("/console/requests/")
    tab_to(page, "Skip to the content", unseen)
    page.keyboard.press("Enter")
    tab_to(page, "Narrow it down", unseen)
    page.keyboard.press("Enter")
    tab_to(page, "Model", unseen)
    page.keyboard.type("small")
    page.keyboard.press("Enter")
    page.wait_for_url("**model=small*")
    page.goto("/admin/hooks/hookpolicy/add/")
    tab_to(page, "Skip to the content", unseen)
    page.keyboard.press("Enter")
    for name, text in (("Name", "no salaries"), ("Actions", '[{"type": "deny", "message": "Not here."}]')):
        tab_to(page, name, unseen)
        page.keyboard.press("ControlOrMeta+A")
        page.keyboard.type(text)
    tab_to(page, "Save", unseen)
    page.keyboard.press("Enter")
    page.get_by_text("was added successfully").wait_for()
    assert HookPolicy.objects.get().name == "no salaries"
    assert unseen == []
