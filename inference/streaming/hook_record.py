"""What a record says of policies, and what policies are told of how their request ended."""

from __future__ import annotations

from collections.abc import Mapping

from hooks.contracts.decisions import Decision
from hooks.contracts.exchange import HookExchange, TerminalOutcome
from inference.domain.errors import PolicyDenied, SkippyError
from inference.domain.outcomes import HookDecision, Outcome

TAG_PREFIX = "policy:"
"""Tags stand among the record's metadata under names that begin so. What a client sends under such a name is
not recorded: nobody can say of his own request what a policy has said of it."""
SERVICE_PREFIX = "skippy:"
"""The same for what the service says."""
PLAYGROUND_MARK = {f"{SERVICE_PREFIX}door": "playground"}


def recorded_decisions(exchange: HookExchange | None) -> tuple[HookDecision, ...]:
    """All so far, in order."""
    return () if exchange is None else tuple([_recorded(decision) for decision in exchange.decisions])


def recorded_metadata(
    metadata: Mapping[str, str], exchange: HookExchange | None, *, is_in_playground: bool = False
) -> dict[str, str]:
    """The body's own, where the request came from if not from a program, and the tags that policies gave."""
    kept = {
        name: value for name, value in metadata.items() if not name.startswith((TAG_PREFIX, SERVICE_PREFIX))
    }
    if is_in_playground:
        kept |= PLAYGROUND_MARK
    if exchange is None:
        return kept
    return kept | {f"{TAG_PREFIX}{name}": value for name, value in exchange.tags.items()}


def terminal_outcome(
    outcome: Outcome,
    *,
    status: int,
    error: SkippyError | None,
    is_stream: bool,
    texts: tuple[str, ...],
) -> TerminalOutcome:
    """`error` is what the client was told, if it was; `texts` are those of a whole answer, by choice."""
    kind = "error"
    if outcome is Outcome.COMPLETED:
        kind = "stream_completed" if is_stream else "success"
    elif outcome in (Outcome.CANCELLED, Outcome.CLIENT_DISCONNECT):
        kind = "cancelled"
    elif isinstance(error, PolicyDenied):
        kind = "denied"
    return TerminalOutcome(kind, status, "" if error is None else error.message, texts)


def _recorded(decision: Decision) -> HookDecision:
    return HookDecision(
        policy=decision.policy,
        point=decision.point.value,
        actions=decision.actions,
        result=decision.result.value,
        reason=decision.reason,
        policy_id=decision.policy_id,
        choice=decision.choice,
        elapsed_ms=round(decision.elapsed_s * 1000, 3),
        injected_tokens=decision.num_injected_tokens,
        discarded_tokens=decision.num_discarded_tokens,
    )
