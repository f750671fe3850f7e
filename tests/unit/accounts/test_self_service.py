"""What is within a limit, and when an own key ends at the latest."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_network

import pytest
from django.core.exceptions import ValidationError

from accounts.contracts import Limits
from accounts.self_service import SelfServiceBounds, bounded_end, check_within

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BOUND = Limits(max_tokens_per_day=10, allowed_models=("a", "b"), allowed_networks=(ip_network("10.0.0.0/8"),))


@pytest.mark.parametrize(
    ("asked", "at_fault"),
    [
        (BOUND, None),
        (Limits(0, 0, 0, 0, 0, 0, 80, ("a",), (ip_network("10.1.0.0/16"), ip_network("10.0.0.1/32"))), None),
        (Limits(allowed_models=("a",), allowed_networks=BOUND.allowed_networks), "max_tokens_per_day"),
        (Limits(max_tokens_per_day=11), "max_tokens_per_day"),
        (Limits(max_tokens_per_day=1), "allowed_models"),
        (Limits(max_tokens_per_day=1, allowed_models=("a", "c")), "allowed_models"),
        (Limits(max_tokens_per_day=1, allowed_models=("a",)), "allowed_networks"),
        (
            Limits(max_tokens_per_day=1, allowed_models=("a",), allowed_networks=(ip_network("8.0.0.0/6"),)),
            "allowed_networks",
        ),
        (
            Limits(max_tokens_per_day=1, allowed_models=("a",), allowed_networks=(ip_network("::/0"),)),
            "allowed_networks",
        ),
    ],
)
def test_nothing_lets_more_through_than_what_it_was_made_with(asked, at_fault) -> None:
    if at_fault is None:
        check_within(asked, BOUND)
        return
    with pytest.raises(ValidationError) as refusal:
        check_within(asked, BOUND)
    assert list(refusal.value.message_dict) == [f"limits.{at_fault}"]


def test_whatever_is_asked_is_within_no_limits() -> None:
    check_within(Limits(max_tokens_per_day=2**62), Limits())


def test_an_own_key_ends_when_it_must() -> None:
    bounds = SelfServiceBounds(max_keys=1, max_days=10)
    latest = NOW + timedelta(days=10)
    assert bounded_end(None, by=None, bounds=bounds, now=NOW) == latest
    assert bounded_end(NOW + timedelta(1), by=None, bounds=bounds, now=NOW) == NOW + timedelta(1)
    assert bounded_end(None, by=None, bounds=SelfServiceBounds(1), now=NOW) is None
    with pytest.raises(ValidationError):
        bounded_end(latest + timedelta(seconds=1), by=None, bounds=bounds, now=NOW)
