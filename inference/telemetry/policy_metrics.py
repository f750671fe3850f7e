"""Policies in Prometheus' numbers: how often each was asked, what came of it, and how long it took.

Names of policies are an administrator's, and old ones do not go away while the process lives: so many of them
have a label of their own, the rest share one. Counting is on the way of requests, where twenty policies may
be asked at a time, so that what a label leads to is looked up once.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

from hooks.contracts.decisions import Firing
from hooks.contracts.points import HookPoint

MAX_NAMED_POLICIES = 200
OTHER_POLICIES = "other"
NOT_MATCHED = "not_matched"
# From what a condition costs to the longest deadline of a webhook.
_SECONDS = (0.00001, 0.00003, 0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


class PolicyMetrics:
    """Event loop only, but for what the registry reads."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._firings = Counter(
            "skippy_policy_firings",
            "How often policies were asked.",
            ("policy", "point", "result"),
            registry=registry,
        )
        self._seconds = Histogram(
            "skippy_policy_seconds",
            "How long a policy took, webhooks included.",
            ("policy",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._names: set[str] = set()
        self._counters: dict[tuple[str, HookPoint, str], Counter] = {}
        self._histograms: dict[str, Histogram] = {}

    def note_firing(self, firing: Firing) -> None:
        """One policy was asked at one point."""
        name = self._name(firing.policy)
        result = NOT_MATCHED if firing.result is None else firing.result.value
        counter = self._counters.get((name, firing.point, result))
        if counter is None:
            counter = self._firings.labels(name, firing.point.value, result)
            self._counters[name, firing.point, result] = counter
        counter.inc()
        histogram = self._histograms.get(name)
        if histogram is None:
            histogram = self._histograms[name] = self._seconds.labels(name)
        histogram.observe(max(0.0, firing.elapsed_s))

    def _name(self, policy: str) -> str:
        if policy not in self._names:
            if len(self._names) >= MAX_NAMED_POLICIES:
                return OTHER_POLICIES
            self._names.add(policy)
        return policy
