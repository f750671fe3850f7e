"""Sees to it that each request has exactly one terminal outcome and one record.

A request can end in many places: refused before it starts, finished, failed in the engine, or left
by its client while any of these is happening. Whoever ends it first decides; the rest is silent. The
record goes to the ledger, which keeps it for good, and to the recorder, for those who watch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from accounts.keys import without_keys
from hooks.contracts.exchange import HookExchange
from inference.domain.admission_events import FrameKind, LaneFreed, ReceiverOutcome
from inference.domain.cache_retention import CacheRetention
from inference.domain.clock import Clock
from inference.domain.errors import GenerationTimeout, PolicyDenied, RequestCancelled, SkippyError
from inference.domain.events import FinishReason, Usage
from inference.domain.ledger import Ledger
from inference.domain.outcomes import Outcome, Recorder, RequestSummary
from inference.domain.phases import PhaseEvent
from inference.domain.priority import PriorityClass
from inference.domain.record_ids import new_record_id
from inference.domain.rejection_reason import RejectionReason
from inference.streaming.hook_record import recorded_decisions, recorded_metadata, terminal_outcome
from inference.streaming.interruption import Interruption
from inference.streaming.usage_meter import UsageMeter


@dataclass(frozen=True, slots=True)
class RequestIdentity:
    """Who asked for what; known once authentication passed. Names are as they were then."""

    request_id: str
    endpoint: str
    user_id: int
    key_id: int
    username: str = ""
    key_name: str = ""
    team_id: int | None = None
    team_name: str = ""
    priority: PriorityClass = PriorityClass.NORMAL
    is_in_playground: bool = False


class RequestLifecycle:
    """One request's way to its end. Event loop only.

    `open()` comes first and may refuse it. `note_*` and the meter collect what is known; `complete`,
    `fail`, `disconnect`, `lose` and `cancel` end it, the first call wins and writes the record. Who must
    not say that it ended before that is certain waits for `recorded()`.
    """

    def __init__(
        self, identity: RequestIdentity, *, recorder: Recorder, ledger: Ledger, clock: Clock
    ) -> None:
        self.identity = identity
        self.meter = UsageMeter()
        self.interruption = Interruption()
        """The context in which whoever serves the request does it, so that others can end it."""
        self._recorder = recorder
        self._ledger = ledger
        self._clock = clock
        self._arrived_ts = clock.monotonic()
        self.created_at = datetime.fromtimestamp(clock.unix_time(), UTC)
        self.record_id: UUID = new_record_id(self.created_at)
        self._submitted_ts: float | None = None
        self._max_tokens = 0
        self._end_user = ""
        self._metadata: Mapping[str, str] = {}
        self._model = ""
        self._is_stream = False
        self._session: int | None = None
        self._was_session_ignored = False
        self._cache_retention = CacheRetention.UNSAID
        self._exchange: HookExchange | None = None
        self._recorded: asyncio.Future[None] | None = None
        self._when_ended: Callable[[Usage | None], None] | None = None

    @property
    def is_ended(self) -> bool:
        return self._recorded is not None

    @property
    def is_running(self) -> bool:
        return self.meter.started_ts is not None

    def open(self) -> None:
        """Raises ServiceUnavailable where it could not be recorded; then it must not go on."""
        self._ledger.open(self)

    async def recorded(self) -> None:
        """Wait until the record of the ended request is safe."""
        assert self._recorded is not None
        self._ledger.hurry()
        await asyncio.shield(self._recorded)

    def note_request(
        self,
        *,
        model: str,
        is_stream: bool,
        end_user: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        """What the body says of itself. It goes to records and telemetry: a key in it by mistake does not."""
        self._model = without_keys(model)
        self._is_stream = is_stream
        self._end_user = without_keys(end_user)
        self._metadata = {without_keys(name): without_keys(value) for name, value in (metadata or {}).items()}

    def note_session(self, session: int | None, *, is_ignored: bool) -> None:
        self._session = session
        self._was_session_ignored = is_ignored

    def note_retention(self, retention: CacheRetention) -> None:
        """How long it lets be kept what is computed for it."""
        self._cache_retention = retention

    def note_hooks(self, exchange: HookExchange) -> None:
        """Policies are asked about it. They hear of its end, once, however it ends."""
        self._exchange = exchange

    def note_submitted(self, *, num_prompt_tokens: int, max_tokens: int) -> None:
        """It asks for a lane from now on. Until it has one, its prompt costs nothing."""
        self._submitted_ts = self._clock.monotonic()
        self._max_tokens = max_tokens
        self.meter.num_prompt_tokens = num_prompt_tokens
        self._ledger.note(self)

    def note_phase(self, event: PhaseEvent) -> None:
        """A part of the way is done. Any thread."""
        self._recorder.record_event(event)

    def interrupt(self, error: SkippyError) -> bool:
        """Somebody else ends it: its client is told `error`. False where it has ended or is about to."""
        return not self.is_ended and self.interruption.interrupt(error)

    def when_ended(self, call: Callable[[Usage | None], None]) -> None:
        """`call` is told once what was used, as soon as that is on record, so that there is no moment in
        which it is counted nowhere; or at once and None, where the request never had a lane."""
        self._when_ended = call

    def complete(self, reason: FinishReason | None, texts: tuple[str, ...] = ()) -> None:
        """`reason` None: nothing was generated that could end in one way or another. `texts` are those of a
        whole answer, by choice, for policies."""
        self._end(Outcome.COMPLETED, status=200, error_code=None, finish_reason=reason, texts=texts)

    def repeat(self) -> None:
        """Answered with what an earlier request of the same name was answered: nothing was generated."""
        self._end(Outcome.COMPLETED, status=200, error_code=None, finish_reason=None)

    def fail(self, error: SkippyError) -> None:
        """Ended by an error that the caller was told. A 503 refuses what has not started, and is a
        failure of what has."""
        is_refused = error.status < 499 or isinstance(error, PolicyDenied)
        is_refused |= error.status == 503 and self.meter.started_ts is None
        if isinstance(error, GenerationTimeout):
            outcome = Outcome.TIMED_OUT
        elif isinstance(error, RequestCancelled):
            outcome = Outcome.CANCELLED
        else:
            outcome = Outcome.REJECTED if is_refused else Outcome.BACKEND_ERROR
        self._end(
            outcome,
            status=error.status,
            # A policy's own code may be anything; those of records are few, and are counted.
            error_code=error.default_code if isinstance(error, PolicyDenied) else error.code,
            finish_reason=None,
            error=error,
        )

    def disconnect(self) -> None:
        """The client went away before anything was sent."""
        self._end(Outcome.CLIENT_DISCONNECT, status=499, error_code="client_disconnect", finish_reason=None)

    def lose(self, outcome: ReceiverOutcome, *, frame_kind: FrameKind, stall_limit_s: float) -> None:
        """The reader of an answer that had begun is gone, or does not read. An event too where it had
        a lane, also if the answer itself was complete."""
        if self.meter.started_ts is not None:
            event = LaneFreed(self.identity.request_id, outcome, frame_kind, stall_limit_s)
            self._recorder.record_event(event)
        self._end(Outcome.CLIENT_DISCONNECT, status=499, error_code=outcome.value, finish_reason=None)

    def cancel(self) -> None:
        """We ended it ourselves, and not for anything that the request did."""
        self._end(Outcome.CANCELLED, status=499, error_code=RequestCancelled.default_code, finish_reason=None)

    def summary_now(self) -> RequestSummary:
        """The record that it would have if it were interrupted now."""
        return self._summary(
            Outcome.INTERRUPTED, status=500, error_code=Outcome.INTERRUPTED.value, finish_reason=None
        )

    def _end(
        self,
        outcome: Outcome,
        *,
        status: int,
        error_code: str | None,
        finish_reason: FinishReason | None,
        error: SkippyError | None = None,
        texts: tuple[str, ...] = (),
    ) -> None:
        if self._recorded is not None:
            return
        summary = self._summary(
            outcome,
            status=status,
            error_code=error_code,
            finish_reason=finish_reason,
            rejection_reason=None if error is None else error.reason,
        )
        self._recorded = self._ledger.record(summary)
        if self._when_ended is not None:
            call, usage = self._when_ended, summary.usage
            if usage is None:
                call(None)
            else:
                self._recorded.add_done_callback(lambda _: call(usage))
        self._recorder.record(summary)
        if self._exchange is not None:
            self._exchange.conclude(
                terminal_outcome(outcome, status=status, error=error, is_stream=self._is_stream, texts=texts)
            )

    def _summary(
        self,
        outcome: Outcome,
        *,
        status: int,
        error_code: str | None,
        finish_reason: FinishReason | None,
        rejection_reason: RejectionReason | None = None,
    ) -> RequestSummary:
        identity, meter = self.identity, self.meter
        return RequestSummary(
            record_id=self.record_id,
            created_at=self.created_at,
            request_id=identity.request_id,
            endpoint=identity.endpoint,
            model=self._model,
            user_id=identity.user_id,
            username=identity.username,
            key_id=identity.key_id,
            key_name=identity.key_name,
            team_id=identity.team_id,
            team_name=identity.team_name,
            is_stream=self._is_stream,
            outcome=outcome,
            status=status,
            error_code=error_code,
            rejection_reason=rejection_reason,
            finish_reason=finish_reason,
            usage=meter.usage,
            max_tokens=self._max_tokens,
            submitted_s=self._since_arrival(self._submitted_ts),
            started_s=self._since_arrival(meter.started_ts),
            first_token_s=self._since_arrival(meter.first_token_ts),
            last_token_s=self._since_arrival(meter.last_token_ts),
            total_s=self._clock.monotonic() - self._arrived_ts,
            priority=identity.priority,
            session=self._session,
            was_session_ignored=self._was_session_ignored,
            end_user=self._end_user,
            metadata=recorded_metadata(
                self._metadata, self._exchange, is_in_playground=identity.is_in_playground
            ),
            cache_retention=self._cache_retention,
            hook_decisions=recorded_decisions(self._exchange),
        )

    def _since_arrival(self, ts: float | None) -> float | None:
        return None if ts is None else ts - self._arrived_ts
