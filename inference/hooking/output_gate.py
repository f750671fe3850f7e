"""The last gate of an answer's text: what goes through it, the policies of its request have seen.

A whole answer is shown to them once. Of a stream they see a window that moves on when enough new text has
come, never token by token, and the text behind which too little stands waits. While they think, nothing more
of this choice is read, and the engine holds its sequence as it does for a slow reader; others go on.

Where all of them only observe, nothing is held: they see what is out already.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from hooks.contracts.actions import StopReason
from hooks.contracts.decisions import OutputVerdict
from hooks.contracts.exchange import HookExchange
from hooks.contracts.points import HookPoint
from inference.domain.events import FinishReason
from inference.domain.logprobs import ScoredToken
from inference.domain.message_deltas import AnswerPart, ContentDelta, MessageDelta
from inference.hooking.asking import PolicyAsking
from inference.parsing.output_window import OutputWindow
from inference.parsing.released_tokens import ReleasedTokens

T = TypeVar("T")


class OutputGate:
    """Of one choice; an OutputFilter. `tokens` are there where tokens are asked for."""

    def __init__(
        self,
        exchange: HookExchange,
        asking: PolicyAsking,
        *,
        choice: int,
        is_stream: bool,
        tokens: ReleasedTokens | None = None,
    ) -> None:
        self._exchange = exchange
        self._asking = asking
        self._choice = choice
        self._is_stream = is_stream
        self._is_observed = exchange.only_observes_output
        self._window = OutputWindow(
            held_chars=exchange.held_chars if is_stream else None, seen_chars=exchange.seen_chars
        )
        self._tokens = tokens
        self._end: FinishReason | None = None

    @property
    def end(self) -> FinishReason | None:
        return self._end

    async def feed(self, part: AnswerPart) -> Sequence[AnswerPart]:
        if self._is_observed:
            # First what went out before, so that none of it waits.
            if self._window.is_due:
                await self._ask()
            self._window.push(part.deltas)
            return (part,)
        self._window.push(part.deltas)
        if self._tokens is not None:
            self._tokens.add(part.tokens, num_chars=_num_content_chars(part.deltas))
        return await self._ask() if self._window.is_due else ()

    async def finish(self) -> Sequence[AnswerPart]:
        self._window.close()
        released = await self._ask(is_last=True)
        return () if self._is_observed else released

    async def _ask(self, *, is_last: bool = False) -> Sequence[AnswerPart]:
        window = self._window
        verdict = OutputVerdict()
        if not (self._is_stream and window.is_empty):
            with self._asking.at(HookPoint.OUTPUT, choice=self._choice, is_one_of_many=not is_last):
                view = await self._off_loop(lambda: window.view(self._choice))
                verdict = await self._exchange.before_output(view)
        if verdict.stop is StopReason.CONTENT_FILTER:
            self._end = FinishReason.CONTENT_FILTER
        elif verdict.stop is StopReason.STOP and not is_last:
            # What has come to its end by itself keeps its own reason.
            self._end = FinishReason.STOP
        released = await self._off_loop(lambda: window.settle(verdict))
        tokens: tuple[ScoredToken, ...] = ()
        if self._tokens is not None:
            is_last = is_last or self._end is not None
            tokens = self._tokens.take(released, is_last=is_last, has_changed=window.has_changed)
        return _parts(released.deltas, tokens)

    async def _off_loop(self, work: Callable[[], T]) -> T:
        """Long answers must not keep the others' events waiting."""
        return await asyncio.to_thread(work) if self._window.is_large else work()

    def __repr__(self) -> str:
        return f"<OutputGate of choice {self._choice}: {self._window!r}>"


def _num_content_chars(deltas: Sequence[MessageDelta]) -> int:
    return sum([len(delta.text) for delta in deltas if isinstance(delta, ContentDelta)])


def _parts(deltas: tuple[MessageDelta, ...], tokens: tuple[ScoredToken, ...]) -> list[AnswerPart]:
    """Tokens go with the first text where they can: not every wire has a place for them elsewhere."""
    if not tokens:
        return [AnswerPart(deltas)] if deltas else []
    place = next((index for index, delta in enumerate(deltas) if isinstance(delta, ContentDelta)), 0)
    before = [AnswerPart(deltas[:place])] if place else []
    return [*before, AnswerPart(deltas[place:], tokens)]
