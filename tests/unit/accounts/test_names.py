"""Names of keys: what reads well, and nothing that breaks what shows or stores it."""

from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError
from hypothesis import given
from hypothesis import strategies as st

from accounts.names import MAX_NAME_LENGTH, validate_name


@pytest.mark.parametrize(
    "name", ["laptop", "a", "CI – nightly (Zürich)", "日本語", "👩‍💻", "x" * MAX_NAME_LENGTH, " a "]
)
def test_ordinary_names_are_taken(name: str) -> None:
    validate_name(name)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("", "blank"),
        ("  ", "blank"),
        ("x" * (MAX_NAME_LENGTH + 1), "too_long"),
        ("a\x00b", "bad_character"),
        ("a\nb", "bad_character"),
        ("a\x1b[31m", "bad_character"),
        ("a\x85b", "bad_character"),
        ("a\u2028b", "bad_character"),
        ("half \ud83d", "bad_character"),
        ("\udc00", "bad_character"),
        ("a\u202eb", "bad_character"),
    ],
    ids=ascii,
)
def test_others_are_refused_with_a_code(name: str, code: str) -> None:
    with pytest.raises(ValidationError) as caught:
        validate_name(name)
    assert caught.value.code == code


@given(st.text(alphabet=st.characters(), max_size=120))
def test_what_is_taken_can_be_stored_and_what_is_refused_says_why_in_ascii(name: str) -> None:
    try:
        validate_name(name)
    except ValidationError as error:
        assert error.message.isascii()
    else:
        assert "\x00" not in name
        assert name.encode("utf-8")
        assert len(name.splitlines()) == 1
