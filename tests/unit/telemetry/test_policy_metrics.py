from __future__ import annotations

from hooks.contracts.decisions import Decision, DecisionResult, Firing
from hooks.contracts.points import HookPoint
from inference.domain.admission_events import AdmissionEvent
from inference.domain.outcomes import RequestSummary
from inference.domain.phases import PhaseEvent, PoliciesAsked, PoliciesConcluded
from inference.domain.telemetry_level import TelemetryLevel
from inference.telemetry.event_names import event_attributes, published_events
from inference.telemetry.policy_metrics import MAX_NAMED_POLICIES, OTHER_POLICIES
from inference.telemetry.policy_observer import PolicyObserver
from inference.telemetry.prometheus import RequestMetrics
from tests.unit.telemetry.test_prometheus import samples


class Events:
    def __init__(self) -> None:
        self.events: list[AdmissionEvent | PhaseEvent] = []

    def record(self, summary: RequestSummary) -> None: ...

    def record_event(self, event: AdmissionEvent | PhaseEvent) -> None:
        self.events.append(event)


def firing(policy: str = "careful", result: DecisionResult | None = None) -> Firing:
    return Firing(1, policy, HookPoint.BEFORE, result is not None, result, 0.002)


def test_firings_are_counted_by_policy_point_and_result() -> None:
    metrics = RequestMetrics(list)
    observer = PolicyObserver(metrics.policies, Events())
    for result in (None, None, DecisionResult.APPLIED, DecisionResult.FAILED_OPEN):
        observer.firing_noted(firing(result=result))
    found = samples(metrics)
    point = "before_chat_completion"
    assert found["skippy_policy_firings_total", point, "careful", "not_matched"] == 2
    assert found["skippy_policy_firings_total", point, "careful", "applied"] == 1
    assert found["skippy_policy_firings_total", point, "careful", "failed_open"] == 1
    assert found["skippy_policy_seconds_count", "careful"] == 4
    assert found["skippy_policy_seconds_bucket", "0.003", "careful"] == 4
    assert found["skippy_policy_seconds_bucket", "0.001", "careful"] == 0


def test_names_of_policies_are_bounded() -> None:
    metrics = RequestMetrics(list)
    for number in range(MAX_NAMED_POLICIES + 10):
        metrics.policies.note_firing(firing(f"policy {number}"))
    metrics.policies.note_firing(firing("policy 0"))
    found = samples(metrics)
    named = {key[2] for key in found if key[0] == "skippy_policy_firings_total"}
    assert len(named) == MAX_NAMED_POLICIES + 1
    point = "before_chat_completion"
    assert found["skippy_policy_firings_total", point, OTHER_POLICIES, "not_matched"] == 10
    assert found["skippy_policy_firings_total", point, "policy 0", "not_matched"] == 2


def test_what_policies_say_at_the_end_is_told_without_the_words_of_tags() -> None:
    events = Events()
    decisions = [
        Decision(1, name, HookPoint.TERMINAL, ("tag",), DecisionResult.APPLIED, elapsed_s=0.5)
        for name in ("a", "b", "a")
    ]
    PolicyObserver(RequestMetrics(list).policies, events).terminal_decided("r", decisions, {"risk": "secret"})
    assert events.events == [PoliciesConcluded("r", 0.5, ("a", "b"), ("risk",))]
    (published,) = published_events(events.events[0], TelemetryLevel.SUMMARY)
    assert published.name == "stage.openai_hooks_terminal"
    assert (published.attributes["skippy.hooks.policies"], published.elapsed_s) == ("a, b", 0.5)
    assert "secret" not in repr(published)


def test_asking_is_a_span_for_debugging() -> None:
    event = PoliciesAsked("r", 0.25, "after_prefill", 2, 1)
    assert list(published_events(event, TelemetryLevel.SUMMARY)) == []
    (published,) = published_events(event, TelemetryLevel.DEBUG)
    assert (published.name, published.elapsed_s) == ("stage.openai_hooks", 0.25)
    attributes = event_attributes(event)
    assert attributes["skippy.hooks.point"] == "after_prefill"
    assert (attributes["skippy.hooks.decisions"], attributes["skippy.hooks.choice"]) == (2, 1)
