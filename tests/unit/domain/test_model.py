"""Ids of models as clients write them."""

from __future__ import annotations

import pytest

from inference.domain.model import canonical_model_id


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("org/a", "org/a"),
        ("org/a@main", "org/a"),
        ("org/a@main:8b", "org/a:8b"),
        ("org/a@main2", "org/a@main2"),
        ("org/a@main2@main", "org/a@main2"),
        ("a@main@main", "a@main"),
        ("a@main\n", "a@main\n"),
        ("@main", ""),
        ("", ""),
    ],
)
def test_the_first_main_before_a_colon_or_the_end_is_taken_out(written: str, meant: str) -> None:
    assert canonical_model_id(written) == meant
