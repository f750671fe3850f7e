from __future__ import annotations

from inference.parsing.detokenizer import Detokenizer


def test_a_character_waits_for_its_last_byte() -> None:
    detokenizer = Detokenizer()
    assert [detokenizer.push(bytes([byte])) for byte in "a😸é".encode()] == ["a", "", "", "", "😸", "", "é"]
    assert detokenizer.flush() == ""


def test_what_can_never_be_a_character_holds_nothing_up() -> None:
    detokenizer = Detokenizer()
    assert detokenizer.push(b"\xf0\x9f") == ""
    assert detokenizer.push(b"x") == "\ufffdx"
    assert detokenizer.push(b"\xff\x80") == "\ufffd\ufffd"
    assert detokenizer.push(b"ok") == "ok"


def test_an_unfinished_character_is_flushed_exactly_once() -> None:
    detokenizer = Detokenizer()
    assert detokenizer.push("é😸".encode()[:-1]) == "é"
    assert detokenizer.flush() == "\ufffd"
    assert detokenizer.flush() == ""


def test_control_tokens_have_no_text() -> None:
    detokenizer = Detokenizer()
    assert detokenizer.push("é".encode()[:1]) == ""
    assert detokenizer.push(b"") == ""
    assert detokenizer.push("é".encode()[1:]) == "é"


def test_null_characters_are_text() -> None:
    assert Detokenizer().push(b"a\0b") == "a\0b"
