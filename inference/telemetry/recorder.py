"""The recorders that a process has: one log line for each generating request, and all of them as one."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence

from inference.domain.admission_events import AdmissionEvent, Admitted, Rejected
from inference.domain.outcomes import Recorder, RequestSummary
from inference.domain.phases import PhaseEvent
from inference.domain.telemetry_level import TelemetryLevel
from inference.telemetry.event_names import event_attributes, event_name, level_of

_log = logging.getLogger("inference.requests")
_events_log = logging.getLogger("inference.events")


class Recorders:
    """Several recorders as one. None of them waits or raises."""

    def __init__(self, recorders: Sequence[Recorder]) -> None:
        self._recorders = tuple(recorders)

    def record(self, summary: RequestSummary) -> None:
        for recorder in self._recorders:
            recorder.record(summary)

    def record_event(self, event: AdmissionEvent | PhaseEvent) -> None:
        for recorder in self._recorders:
            recorder.record_event(event)


class LogRecorder:
    """A Recorder whose records are log lines. They name no prompt, no answer and no key.

    What a request's own line says (that it was admitted, or why not) is no second line of its events, but
    for debugging: under overload, where there are many, they would cost as much as all else about a refusal.
    """

    def record(self, summary: RequestSummary) -> None:
        usage = summary.usage
        _log.info(
            "%s %s user=%d key=%d outcome=%s status=%d code=%s reason=%s finish=%s in=%s out=%s "
            "session=%s started=%s first_token=%s total=%s",
            summary.request_id,
            summary.endpoint,
            summary.user_id,
            summary.key_id,
            summary.outcome.value,
            summary.status,
            summary.error_code or "-",
            summary.rejection_reason.value if summary.rejection_reason else "-",
            summary.finish_reason.value if summary.finish_reason else "-",
            usage.prompt_tokens if usage else "-",
            usage.completion_tokens if usage else "-",
            _session(summary),
            _seconds(summary.started_s),
            _seconds(summary.first_token_s),
            _seconds(summary.total_s),
            extra={"request_id": summary.request_id},
        )

    def record_event(self, event: AdmissionEvent | PhaseEvent) -> None:
        if isinstance(event, Admitted | Rejected):
            level = logging.DEBUG
        elif level_of(event) is TelemetryLevel.SUMMARY:
            level = logging.INFO
        else:
            return
        if _events_log.isEnabledFor(level):
            _events_log.log(level, "%s %s", event_name(event), json.dumps(event_attributes(event)))


def _session(summary: RequestSummary) -> str:
    if summary.was_session_ignored:
        return "ignored"
    return "-" if summary.session is None else str(summary.session)


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}s"
