"""One request and its hooks: the door through which those who generate ask them.

An exchange is opened for each request that has any policy at all, asked at each point that it `wants`, and
concluded exactly once, however the request ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from hooks.contracts.decisions import Decision, Firing, GenerationVerdict, OutputVerdict
from hooks.contracts.points import HookPoint
from hooks.contracts.signals import FirstTokenSignals, WindowRule, WindowSignals
from hooks.contracts.view import HookCaller, OutputText, RequestView


@dataclass(frozen=True, slots=True)
class TerminalOutcome:
    """How the request ended. `kind` is success (a whole answer), stream_completed, error, denied or
    cancelled (the client left, the service stopped, the task was cancelled). `message` is what the client
    was told of an error, `text` of a success the answer's content by choice (whole answers only)."""

    kind: str
    status: int
    message: str = ""
    texts: tuple[str, ...] = ()


class HookExchange(Protocol):
    """Event loop only. Every point may be asked at any time; one without policies answers at once and
    without an await. All of them raise HookDenied and HookFailed; afterwards only `conclude` is called."""

    def wants(self, point: HookPoint) -> bool:
        """Whether any policy of this request is at that point."""
        ...

    @property
    def window_rules(self) -> Sequence[WindowRule]:
        """When windows are to be told, one for each distinct rule of the policies at MID_GENERATION."""
        ...

    @property
    def held_chars(self) -> int:
        """How much of a stream's text is to be held back: the most that any policy at OUTPUT wants which is
        enforced."""
        ...

    @property
    def seen_chars(self) -> int:
        """How much of it is to be seen at once: the most that any policy at OUTPUT wants."""
        ...

    @property
    def only_observes_output(self) -> bool:
        """No policy at OUTPUT is enforced: text is shown to them, and goes out as if nobody looked."""
        ...

    async def before(self, view: RequestView) -> RequestView:
        """The effective request; policies at EFFECTIVE have seen it, too."""
        ...

    async def after_prefill(self, signals: FirstTokenSignals, *, choice: int) -> GenerationVerdict: ...

    async def mid_generation(self, signals: WindowSignals, *, choice: int) -> GenerationVerdict: ...

    async def before_output(self, output: OutputText) -> OutputVerdict:
        """What is to be changed before it is released, and whether the answer ends with it."""
        ...

    def note_injection(self, place: int, *, num_injected: int, num_discarded: int, refusal: str = "") -> None:
        """What the engine made of an injection; with `refusal` it was not made, and why."""
        ...

    @property
    def tags(self) -> Mapping[str, str]: ...

    @property
    def capsule(self) -> tuple[str, str | None] | None:
        """The id, and the nonce, that the answer's headers get."""
        ...

    @property
    def decisions(self) -> Sequence[Decision]:
        """So far, in order."""
        ...

    def conclude(self, outcome: TerminalOutcome) -> None:
        """The request has ended. Only the first call counts. Policies at TERMINAL run on a task of their
        own, so that neither the answer nor who ended it waits for them."""
        ...


class HookDesk(Protocol):
    """Opens exchanges."""

    def open(
        self, caller: HookCaller, *, model: str, endpoint: str, opts_in: bool, request_id: str
    ) -> HookExchange | None:
        """None where no policy concerns this request: then nothing of it costs anything."""
        ...

    async def drain(self, timeout_s: float) -> int:
        """The service stops. Exchanges that are still open are concluded as cancelled, and policies at
        TERMINAL have this long. How many had to be cancelled."""
        ...


class HookObserver(Protocol):
    """Is told what exchanges do, for metrics, and of what comes when the request's record may be written
    already."""

    def firing_noted(self, firing: Firing) -> None:
        """One policy was asked. On the event loop, often: it must be quick."""
        ...

    def terminal_decided(
        self, request_id: str, decisions: Sequence[Decision], tags: Mapping[str, str]
    ) -> None:
        """What came of the policies at TERMINAL, behind `conclude`: not called where they came to nothing."""
        ...
