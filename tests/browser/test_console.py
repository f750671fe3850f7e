"""The console in Chromium: light and dark, wide and narrow, by keyboard, and what axe finds."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from accounts import services
from inference.models import GenerationRecord, ModelPrice, StoredEvent
from inference.usage.aggregation import usage_aggregate
from tests.browser.conftest import DESKTOP, PHONE, log_in, serious_faults
from tests.integration.usage.records import forget_all, record, save

pytestmark = pytest.mark.django_db(transaction=True)
LOOKS = [(DESKTOP, "light"), (DESKTOP, "dark"), (PHONE, "light"), (PHONE, "dark")]


@pytest.fixture
def used(ann):
    """Some days of ann and others."""
    forget_all()
    team = services.team_create(name="the friends")
    rows, now = [], timezone.now()
    for number, name in enumerate(("ann", "bob", "carol")):
        user = services.user_ensure(username=name)
        key, _ = services.api_key_create(user=user, name=f"{name}'s laptop")
        for place in range(60):
            is_good = place % 9 != 0
            rows.append(
                record(
                    created_at=now - timedelta(hours=3 * place, minutes=number),
                    user_id=user.pk,
                    username=name,
                    key_id=key.pk,
                    key_name=key.name,
                    team_id=team.pk if number else None,
                    team_name=team.name if number else "",
                    request_id=f"{name}-{place}",
                    model=("small", "large")[place % 2],
                    num_input_tokens=100 + 37 * place,
                    num_cached_tokens=10 * place,
                    num_output_tokens=20 + place,
                    first_token_s=0.05 + 0.01 * (place % 20),
                    total_s=0.5 + 0.1 * (place % 15),
                    outcome="completed" if is_good else ("rejected", "backend_error")[place % 2],
                    finish_reason=("stop", "length")[place % 2] if is_good else "",
                    rejection_reason="" if is_good or place % 2 else "queue_full",
                    error_code="" if is_good else ("server_overloaded", "generation_failed")[place % 2],
                )
            )
    save(*rows)
    usage_aggregate()
    StoredEvent.objects.create(
        at=now,
        name="stage.openai_tokenize",
        request_id="ann-0",
        elapsed_s=0.002,
        attributes={"llama_stage.prompt_token_count": 12},
    )
    ModelPrice.objects.create(
        model="small", starts_on="2020-01-01", input_price=1, cached_price="0.1", output_price=4
    )
    yield rows
    forget_all()


def signed_in(page, name: str):
    page.goto("/")
    log_in(page, name)
    page.wait_for_url("**/console/**")
    return page


@pytest.mark.parametrize("look", LOOKS)
def test_every_page_fits_and_axe_finds_nothing_serious(root, used, watched, shot, look) -> None:
    size, scheme = look
    look = f"{'phone' if size is PHONE else 'desktop'}-{scheme}"
    page = watched(size=size, scheme=scheme)
    page.goto("/console/login/")
    assert serious_faults(page) == []
    shot(page, f"login-{look}")
    signed_in(page, "root")
    for name, path in (
        ("usage", "/console/"),
        ("keys", "/console/usage/keys/"),
        ("nothing", "/console/?range=custom&from=2020-01-01&to=2020-01-02"),
        ("requests", "/console/requests/"),
        ("request", f"/console/requests/{used[0].pk}/"),
        ("start", "/console/start/"),
    ):
        page.goto(path)
        page.wait_for_load_state("networkidle")
        shot(page, f"{name}-{look}")
        assert serious_faults(page) == [], name
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), name


def test_charts_are_drawn_and_told_as_tables(root, used, watched) -> None:
    page = signed_in(watched(), "root")
    page.wait_for_selector(".plot canvas")
    assert page.locator(".plot canvas").count() == page.locator("figure.chart").count() == 6
    figure = page.locator("figure.chart").first
    figure.locator("summary").click()
    told = [int(cell) for cell in figure.locator("details tbody td:nth-child(2)").all_inner_texts()]
    assert sum(told) == GenerationRecord.objects.filter(created_at__gte=oldest(page)).count()


def oldest(page):
    from datetime import UTC, datetime, timedelta

    return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=6)


def test_by_keyboard(root, used, watched) -> None:
    page = signed_in(watched(), "root")
    page.goto("/console/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Requests"


def test_the_menu_of_a_phone_opens(root, used, watched, shot) -> None:
    page = signed_in(watched(size=PHONE), "root")
    keys = page.get_by_role("link", name="Keys", exact=True)
    assert not keys.is_visible()
    page.get_by_role("button", name="Menu").click()
    assert keys.is_visible()
    shot(page, "menu-phone")
    assert serious_faults(page) == []


def test_the_switch_of_the_theme_is_kept_and_shared_with_the_admin(root, used, watched) -> None:
    page = signed_in(watched(), "root")
    for theme in ("light", "dark"):
        page.get_by_role("button", name="Theme").click()
        assert page.evaluate("document.documentElement.dataset.theme") == theme
    page.goto("/console/requests/")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.goto("/admin/")
    page.wait_for_selector("html.dark")


def test_narrowing_down_and_one_request(ann, used, watched) -> None:
    page = signed_in(watched(), "ann")
    assert page.get_by_role("heading", name="Your usage").is_visible()
    page.get_by_label("Days").select_option("30d")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**range=30d*")
    assert "model=" not in page.url
    page.get_by_role("link", name="generation_failed").click()
    page.wait_for_url("**/console/requests/**")
    first = page.locator("tbody tr").first
    assert "generation_failed" in first.inner_text()
    first.get_by_role("link").click()
    page.wait_for_selector("text=Its time")
    assert "bob" not in page.content()
    page.get_by_role("button", name="Log out").click()
    page.wait_for_url("**/console/login/**")


def test_the_first_run_says_what_to_do(ann, watched, shot) -> None:
    GenerationRecord.objects.all().delete()
    page = signed_in(watched(), "ann")
    assert page.get_by_role("heading", name="The first request").is_visible()
    page.locator("[data-copy='#curl']").click()
    page.wait_for_function(
        "[...document.querySelectorAll('[data-copy-status]')].some((one) => one.textContent)"
    )
    shot(page, "first-run")
    assert serious_faults(page) == []
