"""Telemetry as spans for a collector, over OTLP/HTTP.

The spans of one request are one trace, whose root is its summary: ids are made from the request's id,
so that a span can be sent before the root is known, and whoever has a request id finds the trace.
The exporter of OpenTelemetry does the wire; its queue and threads are not used, since ours counts
what it drops (sink.py). Imported only where a collector is configured.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.util.types import AttributeValue

from inference.domain.telemetry_event import Attribute, TelemetryEvent
from inference.telemetry.event_names import FINISH_REASONS, REQUEST_SUMMARY

SCOPE = InstrumentationScope("skippy-server")
EXPORT_LIMIT_S = 10


class ExportFailed(Exception):
    """The collector did not take a batch."""


class OtlpSink:
    """Sends each batch in one request, within 10 s. `exporter` is for tests."""

    name = "otlp"
    gather_s = 0.5

    def __init__(self, endpoint: str, *, exporter: SpanExporter | None = None) -> None:
        """`endpoint` is the collector's base URL; headers and certificates come from the variables
        that OpenTelemetry defines (OTEL_EXPORTER_OTLP_HEADERS, …_CERTIFICATE)."""
        self._exporter = exporter or OTLPSpanExporter(
            endpoint=f"{endpoint.rstrip('/')}/v1/traces", timeout=EXPORT_LIMIT_S
        )
        self._resource = Resource({"service.name": "skippy"})

    def deliver(self, batch: Sequence[TelemetryEvent]) -> None:
        if self._exporter.export([self._span(event) for event in batch]) is not SpanExportResult.SUCCESS:
            raise ExportFailed

    def close(self) -> None:
        self._exporter.shutdown()

    def _span(self, event: TelemetryEvent) -> ReadableSpan:
        is_root = event.name == REQUEST_SUMMARY
        trace_id, root_id = _trace_ids(event)
        own_id = root_id if is_root else _span_id(event)
        attributes = dict(event.attributes)
        has_parent = bool(event.request_id) and not is_root
        return ReadableSpan(
            name=event.name,
            context=_context(trace_id, own_id),
            parent=_context(trace_id, root_id) if has_parent else None,
            resource=self._resource,
            attributes=_as_conventions_have_it(attributes),
            kind=SpanKind.SERVER if is_root else SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR if "error.type" in attributes else StatusCode.UNSET),
            start_time=event.start_unix_ns,
            end_time=event.end_unix_ns,
            instrumentation_scope=SCOPE,
        )


def _as_conventions_have_it(attributes: dict[str, Attribute]) -> dict[str, AttributeValue]:
    """OpenTelemetry's finish reasons are a list, one for each choice."""
    reason = attributes.get(FINISH_REASONS)
    return {**attributes, FINISH_REASONS: (str(reason),)} if reason is not None else {**attributes}


def _context(trace_id: int, span_id: int) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _trace_ids(event: TelemetryEvent) -> tuple[int, int]:
    """A trace's id (128 bits) and that of its root span (64 bits), never 0."""
    subject = event.request_id or f"{event.name} {event.end_unix_ns}"
    digest = hashlib.sha256(subject.encode()).digest()
    return int.from_bytes(digest[:16], "big") or 1, int.from_bytes(digest[16:24], "big") or 1


def _span_id(event: TelemetryEvent) -> int:
    subject = f"{event.request_id} {event.name} {event.start_unix_ns} {event.end_unix_ns}"
    return int.from_bytes(hashlib.sha256(subject.encode()).digest()[:8], "big") or 1
