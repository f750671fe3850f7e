"""Thinking under a constraint: free until its end, ended in time, and then the answer's own rules begin.

What an answer must look like says nothing of the thinking before it, and a grammar that had to allow it
would allow it in the answer, too. So this stands in front: it watches for the marks, lets everything pass
between them, and starts the answer's constraint behind them. Where thinking has a budget, its end is
forced when the budget is used up, so that there is an answer at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

import numpy as np

from inference.domain.constraint import ConstraintState, OutputConstraint
from inference.domain.tokenizer import Tokenizer
from inference.parsing.formats.message_format import Thinking
from inference.parsing.visible_pieces import visible_pieces
from inference.parsing.vocabulary_tables import kept_with_tokenizer

# Of an end that a token boundary need not respect; longer than any mark.
_MAX_TAIL_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class ThinkingRules:
    """Of one model and format, in its tokens. `begin` and `end` are the marks as the model would write
    them, `end_bytes` how the end reads in `pieces`, which shows control tokens. `banned` are tokens that
    thinking may not have in it: the marks of calls, which would not be calls there, and none where
    they end it."""

    begin: tuple[int, ...]
    end: tuple[int, ...]
    end_bytes: bytes
    pieces: Sequence[bytes]
    end_of_generation: tuple[int, ...]
    banned: tuple[int, ...] = ()


@kept_with_tokenizer
def thinking_rules(
    tokenizer: Tokenizer,
    thinking: Thinking,
    preserved_texts: tuple[str, ...],
    call_markers: tuple[str, ...],
) -> ThinkingRules:
    """Looks at every token of the vocabulary, once for a model and format: not for the event loop."""

    def ids(text: str) -> tuple[int, ...]:
        return tuple(tokenizer.tokenize(text, add_special=False, parse_special=True))

    marks = [ids(marker) for marker in call_markers]
    return ThinkingRules(
        begin=ids(thinking.begin),
        end=ids(thinking.end),
        end_bytes=thinking.end.encode(),
        pieces=visible_pieces(tokenizer, preserved_texts),
        end_of_generation=tuple(filter(tokenizer.is_end_of_generation, range(tokenizer.num_tokens))),
        banned=tuple([mark[0] for mark in marks if len(mark) == 1]),
    )


@dataclass(frozen=True, slots=True)
class ThinkingConstraint:
    """An OutputConstraint. `answer` is that of what comes behind the thinking, or, with
    `is_answer_throughout`, of all of it. `max_tokens` is the budget. `is_open`: the prompt has begun the
    thinking."""

    rules: ThinkingRules
    answer: OutputConstraint | None
    is_open: bool
    max_tokens: int | None = None
    is_answer_throughout: bool = False

    def begin(self) -> ThinkingState:
        return ThinkingState(self)


class _Phase(Enum):
    BEFORE = auto()
    THINKING = auto()
    ENDING = auto()
    """The end is being forced."""
    BEHIND = auto()


class ThinkingState:
    """A ConstraintState."""

    def __init__(self, constraint: ThinkingConstraint) -> None:
        self._constraint = constraint
        self._rules = constraint.rules
        self._answer: ConstraintState | None = None
        if constraint.answer is not None:
            self._answer = constraint.answer.begin()
        # Where an answer of its own rules could be empty, thinking may also be all that there is.
        ends = self._rules.end_of_generation
        self._may_end = self._answer is None or (bool(ends) and self._answer.accepts(ends[0]))
        self._phase = _Phase.BEFORE
        self._num_marked = 0
        """How much of the mark that may come, or must, has come."""
        self._num_thought = 0
        self._tail = b""
        if constraint.is_open:
            self._think()

    @property
    def is_ended(self) -> bool:
        return self._is_ruled and self._answer is not None and self._answer.is_ended

    def accepts(self, token_id: int) -> bool:
        match self._phase:
            case _Phase.ENDING:
                return token_id == self._rules.end[self._num_marked]
            case _Phase.THINKING if not self._constraint.is_answer_throughout:
                if token_id in self._rules.end_of_generation:
                    return self._may_end
                return token_id not in self._rules.banned
            case _Phase.BEFORE if token_id == self._next_mark():
                return True
        return self._accepts_answer(token_id)

    def mask(self) -> Any:
        rules = self._rules
        match self._phase:
            case _Phase.ENDING:
                mask = np.zeros(len(rules.pieces), dtype=np.bool_)
                mask[rules.end[self._num_marked]] = True
                return mask
            case _Phase.THINKING if not self._constraint.is_answer_throughout:
                mask = np.ones(len(rules.pieces), dtype=np.bool_)
                mask[list(rules.end_of_generation)] = self._may_end
                mask[list(rules.banned)] = False
                return mask
        if self._answer is None:
            return np.ones(len(rules.pieces), dtype=np.bool_)
        if not self._is_ruled:
            mask = np.zeros(len(rules.pieces), dtype=np.bool_)
        else:
            mask = np.array(self._answer.mask())
        if self._phase is _Phase.BEFORE:
            mask[self._next_mark()] = True
        return mask

    def advance(self, token_id: int) -> None:
        phase = self._phase
        if phase is _Phase.BEFORE:
            self._advance_before(token_id)
            return
        if phase is _Phase.BEHIND or self._constraint.is_answer_throughout:
            self._advance_answer(token_id)
        if phase is _Phase.ENDING:
            self._num_marked += 1
            if self._num_marked == len(self._rules.end):
                self._end()
        elif phase is _Phase.THINKING:
            self._num_thought += 1
            self._tail = (self._tail + self._rules.pieces[token_id])[-_MAX_TAIL_BYTES:]
            if self._rules.end_bytes in self._tail:
                self._end()
            else:
                self._check_budget()

    def forced_tokens(self, max_tokens: int) -> Sequence[int]:
        if self._phase is _Phase.ENDING:
            return self._rules.end[self._num_marked :][:max_tokens]
        if self._phase is _Phase.BEHIND and self._answer is not None:
            return self._answer.forced_tokens(max_tokens)
        return ()

    # -- from phase to phase ----------------------------------------------------------------------

    @property
    def _is_ruled(self) -> bool:
        """What has come so far is the answer's, or nobody's."""
        return self._phase is _Phase.BEHIND or self._constraint.is_answer_throughout or self._is_answer

    _is_answer = True
    """Before thinking: the answer may still have begun instead."""

    def _next_mark(self) -> int:
        return self._rules.begin[self._num_marked]

    def _accepts_answer(self, token_id: int) -> bool:
        return self._answer is None or (self._is_ruled and self._answer.accepts(token_id))

    def _advance_answer(self, token_id: int) -> None:
        if self._answer is not None:
            self._answer.advance(token_id)

    def _advance_before(self, token_id: int) -> None:
        is_mark = token_id == self._next_mark()
        if self._is_answer and self._accepts_answer(token_id):
            self._advance_answer(token_id)
        else:
            self._is_answer = False
        if not is_mark:
            self._phase = _Phase.BEHIND
            return
        self._num_marked += 1
        if self._num_marked == len(self._rules.begin):
            self._think()

    def _think(self) -> None:
        self._phase = _Phase.THINKING
        self._check_budget()

    def _check_budget(self) -> None:
        budget = self._constraint.max_tokens
        if budget is not None and self._num_thought >= budget and self._rules.end:
            self._phase, self._num_marked = _Phase.ENDING, 0

    def _end(self) -> None:
        self._phase = _Phase.BEHIND
        constraint = self._constraint
        if constraint.answer is not None and not constraint.is_answer_throughout:
            # It was begun for the case that there is no thinking.
            self._answer = constraint.answer.begin()
