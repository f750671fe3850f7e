"""One's own keys, and the service closed for maintenance, in Chromium."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from accounts import services
from accounts.contracts import Limits
from accounts.keys import is_well_formed
from accounts.models import ApiKey
from accounts.self_service import SelfServiceBounds, self_service_set
from inference.maintenance.services import MaintenancePlan, maintenance_begin
from tests.browser.conftest import PHONE, serious_faults
from tests.browser.test_console import LOOKS, signed_in

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_key_is_made_copied_and_revoked(ann, watched, shot) -> None:
    self_service_set(user=ann, bounds=SelfServiceBounds(max_keys=1))
    page = signed_in(watched(), "ann")
    page.get_by_role("link", name="My keys").click()
    assert page.get_by_role("heading", name="You have no key yet").is_visible()
    page.get_by_label("Name, to tell it from others").fill("laptop")
    page.get_by_role("button", name="Make the key").click()
    shown = page.get_by_label("laptop").input_value()
    assert is_well_formed(shown) and serious_faults(page) == []
    shot(page, "key-shown-once")
    page.get_by_role("button", name="Copy").click()
    # Without a clipboard (no permission, no TLS) it says what to do by hand.
    page.locator("[data-copy-status]:not(:empty)").wait_for()
    assert page.locator("[data-copy-status]").inner_text() in ("Copied", "Press Ctrl+C to copy it")
    page.reload()  # sends the form again
    assert page.get_by_text("sent already").is_visible() and ApiKey.objects.count() == 1
    page.get_by_role("link", name="Revoke laptop").click()
    page.get_by_role("button", name="Revoke").click()
    page.get_by_text("is revoked: no process").wait_for()
    assert ApiKey.objects.get().revoked_at is not None
    assert shown not in page.content()


@pytest.mark.parametrize("look", LOOKS[1:3])
def test_the_pages_fit_and_axe_finds_nothing_serious(root, watched, shot, look) -> None:
    size, scheme = look
    limits = Limits(max_tokens_per_day=100_000, max_parallel_requests=4, allowed_models=("small", "large"))
    key, _ = services.api_key_create(user=root, name="a laptop", limits=limits)
    services.api_key_revoke(key=services.api_key_create(user=root, name="an old one")[0])
    self_service_set(user=root, bounds=SelfServiceBounds(max_keys=5, max_days=90))
    maintenance_begin(
        plan=MaintenancePlan(
            message="New disks.", until=timezone.now() + timedelta(hours=2), let_key_ids=[key.pk]
        )
    )
    page = signed_in(watched(size=size, scheme=scheme), "root")
    for name, path in (
        ("my-keys", "/console/keys/"),
        ("key-revoke", f"/console/keys/{key.pk}/revoke/"),
        ("key-replace", f"/console/keys/{key.pk}/replace/"),
        ("maintenance", "/console/maintenance/"),
        ("admin-under-maintenance", "/admin/accounts/apikey/"),
    ):
        page.goto(path)
        page.wait_for_load_state("networkidle")
        shot(page, f"{name}-{'phone' if size is PHONE else 'desktop'}-{scheme}")
        assert page.get_by_text("Under maintenance.").is_visible()
        assert serious_faults(page) == [], name
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), name
