from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from inference.parsing.detokenizer import Detokenizer

BYTES = st.one_of(st.binary(max_size=40), st.text(max_size=20).map(str.encode))


def decoded(pieces: list[bytes]) -> str:
    detokenizer = Detokenizer()
    return "".join([*map(detokenizer.push, pieces), detokenizer.flush()])


@given(st.lists(BYTES, max_size=10))
def test_joined_pieces_are_the_decoded_whole(pieces: list[bytes]) -> None:
    assert decoded(pieces) == b"".join(pieces).decode("utf-8", "replace")


@given(BYTES)
def test_the_smallest_pieces_are_no_different(data: bytes) -> None:
    assert decoded([data[index : index + 1] for index in range(len(data))]) == data.decode("utf-8", "replace")


@given(st.lists(BYTES, max_size=10))
def test_at_most_three_bytes_wait(pieces: list[bytes]) -> None:
    detokenizer = Detokenizer()
    fed = b""
    text = ""
    for piece in pieces:
        fed += piece
        text += detokenizer.push(piece)
        assert any(fed[: len(fed) - waiting].decode("utf-8", "replace") == text for waiting in range(4))


@given(st.text(max_size=20), st.data())
def test_valid_text_never_becomes_replacement_marks(text: str, data: st.DataObject) -> None:
    encoded = text.encode()
    cut = data.draw(st.integers(0, len(encoded)))
    assert decoded([encoded[:cut], encoded[cut:]]) == text
