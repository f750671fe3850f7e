from __future__ import annotations

import time

import pytest

from inference.parsing.stop_strings import StopStrings


def sent(stops: list[str], pieces: list[str]) -> list[str]:
    """What each piece let out, and last what was flushed."""
    watcher = StopStrings(stops)
    return [*map(watcher.push, pieces), watcher.flush()]


def test_without_stops_nothing_is_held() -> None:
    assert sent([], ["a", "", "b"]) == ["a", "", "b", ""]


def test_a_stop_over_several_pieces_never_leaks() -> None:
    assert sent(["gamma delta"], ["beta ", "gam", "ma", " del", "ta eps"]) == ["beta ", "", "", "", "", ""]


def test_what_only_began_like_a_stop_is_sent_as_soon_as_that_is_clear() -> None:
    assert sent(["gamma"], ["a gam", "e on"]) == ["a ", "game on", ""]
    assert sent(["aab"], ["aa", "aa", "c"]) == ["", "aa", "aac", ""]


def test_a_beginning_that_is_never_completed_is_flushed() -> None:
    assert sent(["\n\nUser:"], ["bye\n\n", "Use"]) == ["bye", "", "\n\nUse"]


def test_text_behind_a_stop_is_dropped() -> None:
    watcher = StopStrings(["STOP"])
    assert watcher.push("one STOP two") == "one "
    assert watcher.is_stopped
    assert watcher.push("three") == ""
    assert watcher.flush() == ""


@pytest.mark.parametrize(
    ("stops", "text", "expected"),
    [
        (["b", "a"], "xab", "x"),
        (["ga", "gamma"], "x gamma", "x "),
        (["gamma", "ga"], "x gamma", "x "),
        (["abcd", "bc"], "xabcd", "xa"),
        (["xbc", "bc"], "axbc", "a"),
        (["bc", "xbc"], "axbc", "a"),
        (["aa"], "baaa", "b"),
        (["abab", "ba"], "xabab", "xa"),
        (["😸"], "ok😸", "ok"),
        (["\n"], "\nx", ""),
    ],
)
def test_the_stop_that_is_complete_first_wins_however_the_text_is_cut(
    stops: list[str], text: str, expected: str
) -> None:
    assert "".join(sent(stops, [text])) == expected
    assert "".join(sent(stops, list(text))) == expected


def test_an_empty_stop_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="empty"):
        StopStrings(["a", ""])


def test_the_work_for_a_character_does_not_grow_with_the_stops() -> None:
    # The worst text for the worst stops: each character is a near miss of all that came before.
    size = 20_000
    watcher = StopStrings(["a" * size + "b", "a" * (size + 1) + "b"])
    begin = time.perf_counter()
    for _ in range(2 * size):
        watcher.push("a")
    assert time.perf_counter() - begin < 5
    assert not watcher.is_stopped
    assert len(watcher.flush()) == size + 1
