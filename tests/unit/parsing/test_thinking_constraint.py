from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from inference.domain.constraint import ConstraintState
from inference.parsing.formats.message_format import Thinking
from inference.parsing.thinking_constraint import (
    ThinkingConstraint,
    ThinkingRules,
    ThinkingState,
    thinking_rules,
)
from tests.scripted_engine import ByteTokenizer

END = 257
THINK = Thinking("<think>", "</think>")
TOKENIZER = ByteTokenizer()


class Letters:
    """A constraint: these letters, one after the other, and then the end."""

    def __init__(self, text: str, *, may_be_empty: bool = False) -> None:
        self._text = text
        self._may_be_empty = may_be_empty

    def begin(self) -> ConstraintState:
        return LettersState(self._text, may_be_empty=self._may_be_empty)


class LettersState:
    def __init__(self, text: str, *, may_be_empty: bool) -> None:
        self.rest = list(text.encode())
        self._may_end = may_be_empty
        self.is_ended = False

    def accepts(self, token_id: int) -> bool:
        return token_id == self._next() or (token_id == END and self._may_end)

    def mask(self) -> Any:
        mask = np.zeros(TOKENIZER.num_tokens, dtype=np.bool_)
        mask[self._next()] = True
        mask[END] = mask[END] or self._may_end
        return mask

    def advance(self, token_id: int) -> None:
        assert self.accepts(token_id)
        self._may_end = False
        if token_id == END:
            self.is_ended = True
        else:
            self.rest.pop(0)

    def forced_tokens(self, max_tokens: int) -> Sequence[int]:
        return tuple(self.rest[:max_tokens])

    def _next(self) -> int:
        return self.rest[0] if self.rest else END


def rules(*call_markers: str) -> ThinkingRules:
    return thinking_rules(TOKENIZER, THINK, (), call_markers)


def allowed(state: ThinkingState) -> set[int]:
    """What may come now; the two ways of asking must agree."""
    mask = state.mask()
    assert len(mask) == TOKENIZER.num_tokens
    found = {token_id for token_id in range(TOKENIZER.num_tokens) if mask[token_id]}
    assert found == {token_id for token_id in range(TOKENIZER.num_tokens) if state.accepts(token_id)}
    return found


def write(state: ThinkingState, text: str) -> None:
    for token_id in text.encode():
        assert token_id in allowed(state), chr(token_id)
        state.advance(token_id)


def test_thinking_is_free_and_the_answer_is_not() -> None:
    state = ThinkingConstraint(rules(), Letters("ok"), is_open=True).begin()

    write(state, "anything </thin at all</think>")

    assert allowed(state) == {ord("o")}
    assert list(state.forced_tokens(8)) == list(b"ok")
    write(state, "ok")
    assert allowed(state) == {END}
    assert not state.is_ended
    state.advance(END)
    assert state.is_ended


def test_an_answer_that_must_be_something_cannot_end_inside_thinking() -> None:
    state = ThinkingConstraint(rules(), Letters("ok"), is_open=True).begin()
    write(state, "hm")
    assert END not in allowed(state)
    assert len(allowed(state)) == TOKENIZER.num_tokens - 2

    state = ThinkingConstraint(rules(), Letters("ok", may_be_empty=True), is_open=True).begin()
    write(state, "hm")
    assert END in allowed(state)


def test_the_model_may_think_first_or_answer_at_once() -> None:
    constraint = ThinkingConstraint(rules(), Letters("ok"), is_open=False)

    state = constraint.begin()
    assert allowed(state) == {ord("o"), ord("<")}
    write(state, "ok")
    assert allowed(state) == {END}

    state = constraint.begin()
    write(state, "<think>")
    write(state, "hm</think>ok")
    assert allowed(state) == {END}


def test_once_the_mark_has_begun_it_must_go_on() -> None:
    state = ThinkingConstraint(rules(), Letters("ok"), is_open=False).begin()
    write(state, "<thi")
    assert allowed(state) == {ord("n")}


def test_an_answer_may_begin_like_thinking() -> None:
    state = ThinkingConstraint(rules(), Letters("<table>"), is_open=False).begin()
    write(state, "<t")
    assert allowed(state) == {ord("a"), ord("h")}
    write(state, "able>")
    assert allowed(state) == {END}


@pytest.mark.parametrize("budget", [0, 1, 5])
def test_the_end_is_forced_when_the_budget_is_used_up(budget: int) -> None:
    state = ThinkingConstraint(rules(), None, is_open=True, max_tokens=budget).begin()

    write(state, "x" * budget)

    assert list(state.forced_tokens(99)) == list(b"</think>")
    for token_id in b"</think>":
        assert allowed(state) == {token_id}
        state.advance(token_id)
    assert len(allowed(state)) == TOKENIZER.num_tokens
    assert state.forced_tokens(99) == ()
    assert not state.is_ended


def test_a_budget_counts_only_what_was_thought() -> None:
    state = ThinkingConstraint(rules(), Letters("ok"), is_open=False, max_tokens=3).begin()
    write(state, "<think>abc")
    assert allowed(state) == {ord("<")}
    write(state, "</think>")
    assert allowed(state) == {ord("o")}


def test_who_ends_in_time_is_not_ended() -> None:
    state = ThinkingConstraint(rules(), None, is_open=True, max_tokens=20).begin()
    write(state, "abc</think>and so on, for longer than that")
    assert len(allowed(state)) == TOKENIZER.num_tokens


def test_calls_cannot_begin_inside_thinking() -> None:
    state = ThinkingConstraint(rules("<|endoftext|>", "<|im_start|>"), Letters("ok"), is_open=True).begin()
    assert 256 not in allowed(state)
    write(state, "</think>ok")


def test_an_answer_that_rules_its_thinking_is_asked_all_the_time() -> None:
    state = ThinkingConstraint(
        rules(), Letters("<think>abc</think>ok"), is_open=False, max_tokens=3, is_answer_throughout=True
    ).begin()
    write(state, "<think>ab")
    assert allowed(state) == {ord("c")}
    write(state, "c</think>ok")
    assert allowed(state) == {END}


def test_states_of_one_constraint_do_not_touch_each_other() -> None:
    constraint = ThinkingConstraint(rules(), Letters("ok"), is_open=True, max_tokens=2)
    one, other = constraint.begin(), constraint.begin()
    write(one, "ab")
    assert allowed(one) == {ord("<")}
    assert len(allowed(other)) == TOKENIZER.num_tokens - 2
