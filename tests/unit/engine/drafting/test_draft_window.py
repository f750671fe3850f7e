from __future__ import annotations

import pytest

from inference.engine.drafting.draft_window import INITIAL_WINDOW, DraftWindow


def test_it_grows_up_to_its_ceiling_while_guesses_are_right() -> None:
    window = DraftWindow(6)
    assert window.size == INITIAL_WINDOW == 4
    for expected in (5, 6, 6):
        window.observe(num_drafted=window.size, num_accepted=window.size)
        assert window.size == expected


def test_a_wrong_last_token_is_as_good_as_none() -> None:
    window = DraftWindow(8)
    window.observe(num_drafted=4, num_accepted=3)
    assert window.size == 5


def test_an_early_wrong_token_shrinks_it_by_one_and_never_below_what_was_committed() -> None:
    window = DraftWindow(8)
    window.observe(num_drafted=4, num_accepted=0)
    assert window.size == 3
    window.observe(num_drafted=8, num_accepted=5)
    assert window.size == 6
    small = DraftWindow(2)
    small.observe(num_drafted=2, num_accepted=0)
    assert small.size == 1


def test_it_never_leaves_its_bounds() -> None:
    window = DraftWindow(2)
    for num_drafted, num_accepted in ((2, 2), (8, 5), (3, 0), (2, 0), (1, 0)):
        window.observe(num_drafted=num_drafted, num_accepted=num_accepted)
        assert 1 <= window.size <= 2


def test_a_draft_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one token"):
        DraftWindow(0)
