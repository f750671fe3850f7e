"""Limits of key, user and team hold at once."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from accounts.contracts import KeyLimits, KeyPriority, Limits, lowest_priority

BATCH, NORMAL, INTERACTIVE = KeyPriority.BATCH, KeyPriority.NORMAL, KeyPriority.INTERACTIVE


@pytest.mark.parametrize(
    ("decided", "expected"),
    [
        ((None, None, None), NORMAL),
        ((INTERACTIVE, None, None), INTERACTIVE),
        ((INTERACTIVE, BATCH, None), BATCH),
        ((INTERACTIVE, INTERACTIVE, NORMAL), NORMAL),
        ((BATCH, INTERACTIVE, INTERACTIVE), BATCH),
        ((None, None, BATCH), BATCH),
    ],
)
def test_the_lowest_class_that_was_decided_holds(decided, expected) -> None:
    assert lowest_priority(*decided) is expected


def test_a_model_has_to_be_allowed_by_all_who_name_any() -> None:
    limits = KeyLimits(Limits(allowed_models=("a", "b")), Limits(), Limits(allowed_models=("b", "c")))
    assert [limits.allows_model(model) for model in "abcd"] == [False, True, False, False]
    assert KeyLimits().allows_model("anything")


@pytest.mark.parametrize(
    ("address", "is_allowed"),
    [
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("10.2.0.1", False),
        ("2001:db8::1", False),
        ("", False),
        (None, False),
        ("not an address", False),
        ("10.1.2.3%eth0", False),
    ],
)
def test_an_address_has_to_lie_in_a_network_of_all_who_name_any(address, is_allowed) -> None:
    limits = KeyLimits(
        Limits(allowed_networks=(ip_network("10.1.0.0/16"), ip_network("2001:db8::/32"))),
        Limits(),
        Limits(allowed_networks=(ip_network("10.0.0.0/8"),)),
    )
    assert limits.allows_address(address) is is_allowed
    assert KeyLimits().allows_address(address)


def test_only_counts_have_to_be_counted() -> None:
    assert not KeyLimits(Limits(allowed_models=("a",))).has_counts
    assert KeyLimits(of_team=Limits(max_tokens_per_week=0)).has_counts
