"""inference/parsing/released_tokens.py: no token says what its text does not."""

from __future__ import annotations

from inference.domain.logprobs import ScoredToken
from inference.domain.message_deltas import ContentDelta
from inference.parsing.argument_changes import Change
from inference.parsing.output_window import Released
from inference.parsing.released_tokens import LateTokens, TextTokens


def scored(*texts: str, offset: int = 0) -> list[ScoredToken]:
    tokens = []
    for text in texts:
        tokens.append(ScoredToken(text, text.encode(), -1.0, offset))
        offset += len(text)
    return tokens


def taken(
    tokens: TextTokens | LateTokens, released: Released, *, is_last: bool = False
) -> list[tuple[str, int]]:
    found = tokens.take(released, is_last=is_last, has_changed=bool(released.changes))
    return [(token.text, token.offset) for token in found]


def test_tokens_go_out_with_their_text() -> None:
    tokens = TextTokens()
    tokens.add(scored("ab", "cd"), num_chars=4)
    tokens.add(scored("ef", offset=4), num_chars=2)
    assert taken(tokens, Released((ContentDelta("abc"),), (), 3)) == [("ab", 0)]
    assert taken(tokens, Released((ContentDelta("def"),), (), 6)) == [("cd", 2), ("ef", 4)]


def test_tokens_of_changed_text_are_left_out_and_the_others_move() -> None:
    tokens = TextTokens()
    tokens.add(scored("my ", "se", "cret", " is", " out"), num_chars=16)
    released = Released((ContentDelta("my * is out"),), (Change(3, 9, "*"),), 16)
    assert taken(tokens, released) == [("my ", 0), (" is", 4), (" out", 7)]


def test_a_token_over_the_end_of_a_change_is_left_out_later_too() -> None:
    tokens = TextTokens()
    tokens.add(scored("se", "cret, ", "and"), num_chars=11)
    assert taken(tokens, Released((ContentDelta("*"),), (Change(0, 6, "*"),), 6)) == []
    assert taken(tokens, Released((ContentDelta(", and"),), (), 11)) == [("and", 3)]


def test_parts_of_a_character_are_of_that_character() -> None:
    tokens = TextTokens()
    first, second = "\u20ac".encode()[:1], "\u20ac".encode()[1:]
    tokens.add([ScoredToken("a", b"a", -1.0, 0), ScoredToken("", first, -1.0, 1)], num_chars=2)
    tokens.add([ScoredToken("", second, -1.0, 2)], num_chars=0)
    assert taken(tokens, Released((ContentDelta("a*"),), (Change(1, 2, "*"),), 2)) == [("a", 0), ("", 2)]


def test_places_count_from_behind_a_repeated_prompt() -> None:
    tokens = TextTokens()
    tokens.add(scored("ab", "cd", offset=10), num_chars=4)
    released = Released((ContentDelta("***cd"),), (Change(0, 2, "***"),), 4)
    assert taken(tokens, released) == [("cd", 13)]


def test_tokens_of_a_parsed_answer_come_at_its_end() -> None:
    tokens = LateTokens()
    tokens.add(scored("<think>", "a"), num_chars=0)
    assert taken(tokens, Released()) == []
    tokens.add(scored("b", offset=8), num_chars=1)
    assert taken(tokens, Released((ContentDelta("b"),), (), 1), is_last=True) == [
        ("<think>", 0),
        ("a", 7),
        ("b", 8),
    ]


def test_where_a_parsed_answer_was_changed_none_come() -> None:
    tokens = LateTokens()
    tokens.add(scored("secret"), num_chars=6)
    assert tokens.take(Released(), is_last=True, has_changed=True) == ()
