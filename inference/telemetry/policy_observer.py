"""What policies do, told to those who watch the service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hooks.contracts.decisions import Decision, Firing
from inference.domain.outcomes import Recorder
from inference.domain.phases import PoliciesConcluded
from inference.telemetry.policy_metrics import PolicyMetrics


class PolicyObserver:
    """Implements hooks.contracts.exchange.HookObserver."""

    def __init__(self, metrics: PolicyMetrics, recorder: Recorder) -> None:
        self._metrics = metrics
        self._recorder = recorder

    def firing_noted(self, firing: Firing) -> None:
        self._metrics.note_firing(firing)

    def terminal_decided(
        self, request_id: str, decisions: Sequence[Decision], tags: Mapping[str, str]
    ) -> None:
        """The values of tags may be anybody's words: they are for records, and not for logs."""
        policies = tuple(dict.fromkeys([decision.policy for decision in decisions]))
        elapsed_s = max([decision.elapsed_s for decision in decisions], default=0.0)
        self._recorder.record_event(PoliciesConcluded(request_id, elapsed_s, policies, tuple(tags)))
