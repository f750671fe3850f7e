"""What policies say while one choice is generated, made into what its stream can do.

The engine tells how sure the model was before it tells the token itself, and lets its sequence stand still.
What policies want to put in is put in here or refused, and either is on record:

    constraint   all of the answer is held to a form: text that the form does not know would break it
    markup       the answer stands inside of a call or of a mark, where text would be no text
    character    its last token ended inside of a character
    empty        there is nothing to put in
    ended        the answer ended with this token, or ends here by a policy's word
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from hooks.contracts.actions import InjectText, StopReason
from hooks.contracts.decisions import GenerationVerdict
from hooks.contracts.exchange import HookExchange
from hooks.contracts.points import HookPoint
from hooks.contracts.signals import FirstTokenSignals, WindowSignals
from inference.domain.events import FinishReason, Injected, Signals
from inference.hooking.asking import PolicyAsking
from inference.hooking.readable_text import readable
from inference.hooking.signals import policy_signals

Tokenize = Callable[[str], Awaitable[tuple[int, ...]]]

_REASONS = {StopReason.STOP: FinishReason.STOP, StopReason.CONTENT_FILTER: FinishReason.CONTENT_FILTER}


class InjectionRefused(StrEnum):
    """See the module. What the engine refuses has the engine's own words."""

    CONSTRAINT = "constraint"
    MARKUP = "markup"
    CHARACTER = "character"
    EMPTY = "empty"
    ENDED = "ended"


class InterruptibleText(Protocol):
    """The reader of an answer, as far as text may be put into it."""

    @property
    def is_in_markup(self) -> bool: ...

    @property
    def is_in_character(self) -> bool: ...


@dataclass(frozen=True, slots=True, repr=False)
class Insertion:
    """Tokens that go into the sequence. `shown` is their text where the client gets it, else empty."""

    token_ids: tuple[int, ...]
    shown: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Ruling:
    """`insertions` first, then the end, where `stop` is not None. Where the answer ends, nothing is
    computed for what is inserted any more: it is only shown, and counted."""

    insertions: tuple[Insertion, ...] = ()
    stop: FinishReason | None = None


class ChoiceHooks:
    """Of the choice `index`. Event loop only: `rule` on each Signals, `injected` on each Injected."""

    def __init__(
        self,
        exchange: HookExchange,
        asking: PolicyAsking,
        *,
        index: int,
        text: InterruptibleText,
        is_constrained: bool,
        tokenize: Tokenize,
    ) -> None:
        self._exchange = exchange
        self._asking = asking
        self._index = index
        self._text = text
        self._is_constrained = is_constrained
        self._tokenize = tokenize
        self._due: deque[tuple[int, Insertion]] = deque()

    async def rule(self, event: Signals) -> Ruling:
        """What becomes of the answer now. Its sequence stands still meanwhile, for as long as policies may
        think. Raises PolicyDenied and ServiceUnavailable."""
        wanted: list[tuple[int, InjectText]] = []
        stop: StopReason | None = None
        for signals in policy_signals(event):
            verdict = await self._verdict(signals)
            wanted += _injections(verdict)
            stop = stop or verdict.stop
            if stop is not None:
                break
        insertions = await self._admitted(wanted, is_last=stop is not None, is_held=event.is_held)
        return Ruling(insertions, None if stop is None else _REASONS[stop])

    async def _verdict(self, signals: FirstTokenSignals | WindowSignals) -> GenerationVerdict:
        if isinstance(signals, FirstTokenSignals):
            with self._asking.at(HookPoint.AFTER_PREFILL, choice=self._index):
                return await self._exchange.after_prefill(signals, choice=self._index)
        with self._asking.at(HookPoint.MID_GENERATION, choice=self._index):
            return await self._exchange.mid_generation(signals, choice=self._index)

    def injected(self, event: Injected) -> str:
        """The engine has answered an insertion; the text that is to be shown now, or none."""
        place, insertion = self._due.popleft()
        self._exchange.note_injection(
            place,
            num_injected=event.num_injected,
            num_discarded=event.num_discarded,
            refusal=event.refusal,
        )
        return "" if event.refusal else insertion.shown

    async def _admitted(
        self, wanted: Sequence[tuple[int, InjectText]], *, is_last: bool, is_held: bool
    ) -> tuple[Insertion, ...]:
        insertions: list[Insertion] = []
        for place, injection in wanted:
            refusal = self._refusal(injection, is_last=is_last, is_held=is_held)
            text = readable(injection.text)
            token_ids = () if refusal is not None else await self._tokenize(text)
            if refusal is None and not token_ids:
                refusal = InjectionRefused.EMPTY
            if refusal is not None:
                self._exchange.note_injection(place, num_injected=0, num_discarded=0, refusal=refusal.value)
                continue
            insertion = Insertion(token_ids, text if injection.is_shown else "")
            if is_last:
                # The token that the signals came with is gone with the rest of the answer.
                num_discarded = 0 if insertions else 1
                self._exchange.note_injection(place, num_injected=len(token_ids), num_discarded=num_discarded)
            else:
                self._due.append((place, insertion))
            insertions.append(insertion)
        return tuple(insertions)

    def _refusal(self, injection: InjectText, *, is_last: bool, is_held: bool) -> InjectionRefused | None:
        if self._is_constrained:
            return InjectionRefused.CONSTRAINT
        if self._text.is_in_markup:
            return InjectionRefused.MARKUP
        if self._text.is_in_character:
            return InjectionRefused.CHARACTER
        if is_last and not injection.is_shown:
            return InjectionRefused.ENDED
        if not is_last and not is_held:
            return InjectionRefused.ENDED
        return None


def _injections(verdict: GenerationVerdict) -> list[tuple[int, InjectText]]:
    return list(zip(verdict.decision_places, verdict.injections, strict=True))
