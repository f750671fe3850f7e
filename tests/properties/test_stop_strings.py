from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from inference.parsing.stop_strings import StopStrings
from inference.parsing.text_stream import TextStream

# Few letters, so that stops overlap, repeat and nearly match.
LETTERS = "abé"
STOPS = st.lists(st.text(LETTERS, min_size=1, max_size=5), max_size=4)
PIECES = st.lists(st.text(LETTERS, max_size=6), max_size=12)


def expected(stops: list[str], text: str) -> str:
    """The rule itself: read on until the text ends with a stop; the longest such stop goes."""
    for end in range(1, len(text) + 1):
        sizes = [len(stop) for stop in stops if text[:end].endswith(stop)]
        if sizes:
            return text[: end - max(sizes)]
    return text


@given(STOPS, PIECES)
def test_every_cut_gives_the_answer_of_the_rule(stops: list[str], pieces: list[str]) -> None:
    watcher = StopStrings(stops)
    sent = "".join([*map(watcher.push, pieces), watcher.flush()])
    assert sent == expected(stops, "".join(pieces))
    assert watcher.is_stopped is any(stop in "".join(pieces) for stop in stops)


@given(STOPS, PIECES)
def test_sent_text_never_has_to_be_taken_back(stops: list[str], pieces: list[str]) -> None:
    watcher = StopStrings(stops)
    fed = sent = ""
    for piece in pieces:
        fed += piece
        sent += watcher.push(piece)
        # Whatever may still come, the answer begins with what was sent.
        for future in ("", *stops, *(stop[1:] for stop in stops), "a", "b"):
            assert expected(stops, fed + future).startswith(sent)


@given(STOPS, PIECES)
def test_nothing_waits_without_need(stops: list[str], pieces: list[str]) -> None:
    watcher = StopStrings(stops)
    sent = "".join(map(watcher.push, pieces))
    if watcher.is_stopped:
        return
    held = "".join(pieces)[len(sent) :]
    assert held == "" or any(stop.startswith(held) and stop != held for stop in stops)
    assert watcher.flush() == held


@given(STOPS, st.lists(st.binary(max_size=3), min_size=1, max_size=6), st.data())
def test_a_whole_answer_and_its_stream_are_the_same(
    stops: list[str], pieces: list[bytes], data: st.DataObject
) -> None:
    pieces = [*pieces, "aé".encode()[:2], "é".encode()[1:], b"b"]
    token_ids = data.draw(st.lists(st.integers(0, len(pieces) - 1), max_size=20))
    text = b"".join(pieces[token_id] for token_id in token_ids).decode("utf-8", "replace")

    whole = TextStream(pieces, stops)
    first = whole.feed(token_ids)
    assert first.text + whole.finish() == expected(stops, text)

    stream = TextStream(pieces, stops)
    deltas = []
    rest = token_ids
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        deltas.append(stream.feed(rest[:size]))
        rest = rest[size:]
    assert "".join(delta.text for delta in deltas) + stream.finish() == expected(stops, text)
    assert sum(delta.num_tokens for delta in deltas) == first.num_tokens
