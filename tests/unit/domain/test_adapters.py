from __future__ import annotations

import itertools

import pytest

from inference.domain.adapters import AppliedAdapter, adapter_namespace, adapter_set
from inference.domain.requests import GenerationRequest

A, B = AppliedAdapter("a", 1.0), AppliedAdapter("b", -0.5)


def test_equal_sets_are_equal_whatever_was_said_first_and_nothing_is_nothing() -> None:
    assert adapter_set([B, A]) == adapter_set([A, B]) == (A, B)
    assert adapter_set([AppliedAdapter("c", 0.0), AppliedAdapter("d", -0.0)]) == ()


def test_no_two_sets_have_the_same_namespace_whatever_names_look_like() -> None:
    names = ("a", "b", "a × 1.0", "a × 1.0, adapter 1 b", "1 a", "", "1.0", "a, adapter")
    scales = (1.0, 1.0000000000000002, 0.1, 1e-300, -1.0)
    ones = [AppliedAdapter(name, scale) for name in names for scale in scales]
    sets = [(), *((one,) for one in ones), *(tuple(pair) for pair in itertools.combinations(ones, 2))]
    assert len({adapter_namespace(one) for one in sets}) == len(sets)
    assert adapter_namespace(()) == ""


def test_a_request_whose_namespace_is_shared_with_others_cannot_be_made() -> None:
    GenerationRequest("r", (1,), 1, adapters=(A,), cache_namespace=f"user 1{adapter_namespace((A,))}")
    for namespace in ("", "user 1", f"user 1{adapter_namespace((A,))}", adapter_namespace((A, B))):
        with pytest.raises(ValueError, match="namespace"):
            GenerationRequest("r", (1,), 1, adapters=(B,), cache_namespace=namespace)
