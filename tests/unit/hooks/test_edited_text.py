"""hooks/matching/edited_text.py: changes of changes, in places of the original."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks.matching.edited_text import EditedText, Replacement


def edited(text: str, *rounds: list[tuple[int, int, str]]) -> EditedText:
    result = EditedText(text)
    for one in rounds:
        result = result.replaced([Replacement(*replacement) for replacement in one])
    return result


def applied(text: str, replacements: tuple[Replacement, ...]) -> str:
    parts: list[str] = []
    place = 0
    for one in replacements:
        assert place <= one.start <= one.end <= len(text)
        parts += [text[place : one.start], one.text]
        place = one.end
    return "".join([*parts, text[place:]])


def test_untouched_text_has_no_replacements() -> None:
    text = edited("as it was")
    assert (text.text, text.replacements) == ("as it was", ())


def test_changes_of_one_round_keep_their_places() -> None:
    text = edited("a bad, bad day", [(2, 5, "***"), (7, 10, "#")])
    assert text.text == "a ***, # day"
    assert text.replacements == (Replacement(2, 5, "***"), Replacement(7, 10, "#"))


def test_a_later_change_stands_for_what_the_earlier_one_stood_for() -> None:
    text = edited("write to me@home.org now", [(9, 20, "[address]")], [(10, 17, "***")])
    assert text.text == "write to [***] now"
    assert text.replacements == (Replacement(9, 20, "[***]"),)


def test_a_change_over_the_edge_of_an_earlier_one_takes_both() -> None:
    text = edited("abcdef", [(2, 4, "XY")], [(1, 3, "-")])
    assert text.text == "a-Yef"
    assert text.replacements == (Replacement(1, 4, "-Y"),)


def test_what_was_taken_away_at_the_end_stays_away() -> None:
    text = edited("abcdef", [(3, 6, "")], [(0, 1, "A")])
    assert text.text == "Abc"
    assert text.replacements == (Replacement(0, 1, "A"), Replacement(3, 6, ""))


def test_something_can_be_put_into_an_empty_text() -> None:
    assert edited("", [(0, 0, "new")]).replacements == (Replacement(0, 0, "new"),)


@pytest.mark.parametrize("places", [[(3, 2, "")], [(0, 9, "")], [(2, 3, ""), (1, 4, "")]])
def test_places_that_are_none_are_refused(places: list[tuple[int, int, str]]) -> None:
    with pytest.raises(ValueError, match="overlap"):
        edited("abcd", places)


@given(
    st.text("abc", max_size=12),
    st.lists(
        st.lists(st.tuples(st.integers(0, 20), st.integers(0, 4), st.text("XY", max_size=3)), max_size=4)
    ),
)
def test_the_replacements_make_the_text_of_the_original(
    original: str, rounds: list[list[tuple[int, int, str]]]
) -> None:
    text = EditedText(original)
    for one in rounds:
        replacements: list[Replacement] = []
        before = text.text
        place = 0
        for skip, size, put in one:
            start = min(place + skip, len(before))
            end = min(start + size, len(before))
            replacements.append(Replacement(start, end, put))
            place = end
        text = text.replaced(replacements)
        assert text.text == applied(before, tuple(replacements))
        assert text.text == applied(original, text.replacements)
