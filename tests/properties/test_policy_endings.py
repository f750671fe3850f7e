"""However many ends a request has, and in whatever order: one record, and policies hear of one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from inference.domain.admission_events import FrameKind, ReceiverOutcome
from inference.domain.errors import (
    GenerationFailed,
    GenerationTimeout,
    PolicyDenied,
    RateLimitExceeded,
    RequestCancelled,
    ServiceUnavailable,
    SkippyError,
)
from inference.domain.events import FinishReason
from inference.domain.outcomes import Outcome
from inference.streaming.lifecycle import RequestIdentity, RequestLifecycle
from tests.clocks import FakeClock
from tests.ledgers import MemoryLedger
from tests.scripted_fleet import SilentRecorder
from tests.scripted_hooks import ScriptedExchange

End = Callable[[RequestLifecycle], None]


def failing(error: SkippyError) -> End:
    return lambda lifecycle: lifecycle.fail(error)


ENDS: dict[str, tuple[End, str]] = {
    "completed": (lambda one: one.complete(FinishReason.STOP, ("text",)), "success"),
    "filtered": (lambda one: one.complete(FinishReason.CONTENT_FILTER), "success"),
    "denied": (failing(PolicyDenied("No.", status=499)), "denied"),
    "failed": (failing(GenerationFailed("broken")), "error"),
    "timed out": (failing(GenerationTimeout("late")), "error"),
    "over its limits": (failing(RateLimitExceeded("more")), "error"),
    "drained": (failing(ServiceUnavailable("stopping")), "error"),
    "cancelled by an operator": (failing(RequestCancelled("ended")), "cancelled"),
    "left": (lambda one: one.disconnect(), "cancelled"),
    "stalled": (
        lambda one: one.lose(ReceiverOutcome.STALLED, frame_kind=FrameKind.IN_FLIGHT, stall_limit_s=1.0),
        "cancelled",
    ),
    "dropped": (
        lambda one: one.lose(ReceiverOutcome.DROPPED, frame_kind=FrameKind.TERMINAL, stall_limit_s=1.0),
        "cancelled",
    ),
    "task cancelled": (lambda one: one.cancel(), "cancelled"),
}


@given(
    st.lists(st.sampled_from(sorted(ENDS)), min_size=1, max_size=8),
    st.booleans(),
    st.booleans(),
    st.integers(0, 3),
)
def test_the_first_end_is_the_only_one(
    ends: list[str], is_stream: bool, has_lane: bool, num_decisions: int
) -> None:
    async def run() -> None:
        clock, ledger, exchange = FakeClock(), MemoryLedger(), ScriptedExchange()
        identity = RequestIdentity("r", "chat.completions", user_id=1, key_id=2)
        lifecycle = RequestLifecycle(identity, recorder=SilentRecorder(), ledger=ledger, clock=clock)
        lifecycle.open()
        lifecycle.note_request(model="m", is_stream=is_stream, metadata={"policy:x": "forged", "own": "1"})
        lifecycle.note_hooks(exchange)
        for _ in range(num_decisions):
            exchange.decided("tag")
        exchange.tags = {"seen": "yes"}
        if has_lane:
            lifecycle.meter.start(clock.now, num_cached_tokens=0)
        for end in ends:
            ENDS[end][0](lifecycle)
        (outcome,) = exchange.outcomes
        kind = ENDS[ends[0]][1]
        if kind == "success" and is_stream:
            kind = "stream_completed"
        assert outcome.kind == kind
        (record,) = ledger.records
        assert record.metadata == {"own": "1", "policy:seen": "yes"}
        assert len(record.hook_decisions) == num_decisions
        assert (record.outcome is Outcome.COMPLETED) is (kind in ("success", "stream_completed"))
        if kind == "denied":
            assert (record.outcome, record.error_code) == (Outcome.REJECTED, "permission_denied")
        assert outcome.status == record.status

    asyncio.run(run())
