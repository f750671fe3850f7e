"""A walk over every place of the navigation, so that a page is looked at as soon as it is there: what axe
finds in light and dark, whether it fits a phone, and what every page has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.urls import reverse

from skippy_site.navigation import PLACES
from tests.browser.conftest import DESKTOP, PHONE, serious_faults
from tests.browser.test_console import signed_in
from tests.filled_console import FilledConsole, clear, fill

pytestmark = pytest.mark.django_db(transaction=True)
SCHEMES = ("light", "dark")
_SWITCH = "isDark => document.documentElement.classList.toggle('dark', isDark)"
# 200 % of a small desktop, which is what WCAG calls reflow.
ZOOMED = {"width": 640, "height": 450}


@pytest.fixture
def filled(transactional_db: None) -> Iterator[FilledConsole]:
    clear()
    yield fill()
    clear()


@pytest.fixture
def page(root: Any, filled: FilledConsole, watched: Any) -> Any:
    """Signed in; sockets, which the live server has not, say nothing."""
    opened = watched(size=DESKTOP)
    opened.route_web_socket("**/socket*", lambda socket: None)
    return signed_in(opened, "root")


def faults_of(page: Any, address: str) -> list[str]:
    """What is wrong with one page; it is loaded once, and then looked at in all ways."""
    page.set_viewport_size(DESKTOP)
    page.emulate_media(color_scheme="light")
    answer = page.goto(address)
    page.wait_for_load_state("load")
    found = [] if answer.status == 200 else [f"status {answer.status}"]
    if page.title().strip(" ·|") in ("", "Skippy", "Skippy site admin"):
        found.append(f"title {page.title()!r}")
    if page.locator("h1").count() != 1:
        found.append(f"{page.locator('h1').count()} headings of the first rank")
    if page.locator("main").count() != 1:
        found.append("no landmark for the content")
    page.keyboard.press("Tab")
    if page.evaluate("document.activeElement.textContent.trim()") != "Skip to the content":
        found.append("no way past the navigation")
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        # The admin's theme looks at the system's colours when it is loaded.
        page.evaluate(_SWITCH, scheme == "dark")
        found += [f"{scheme}: {fault}" for fault in serious_faults(page, only_colours=scheme == "dark")]
    for size in (ZOOMED, PHONE):
        page.set_viewport_size(size)
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > size["width"]:
            found.append(f"{width} px wide where {size['width']} are there")
    return [f"{address}: {fault}" for fault in found]


def test_every_place_of_the_navigation(page, shot) -> None:
    faults = []
    for group in PLACES:
        for place in group.places:
            faults += faults_of(page, reverse(place.url_name))
            shot(page, f"walk-{place.title.lower().replace(' ', '-')}")
    assert not faults, "\n".join(faults)


def test_every_form_of_the_admin(page, filled, shot) -> None:
    faults = []
    for model in admin.site._registry:
        name = f"{model._meta.app_label}_{model._meta.model_name}"
        faults += faults_of(page, reverse(f"admin:{name}_change", args=[filled.things[name]]))
        shot(page, f"walk-form-{name}")
    assert not faults, "\n".join(faults)
