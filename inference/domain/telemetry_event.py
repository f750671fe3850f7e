"""One thing that happened, under its published name: what sinks write down or send away."""

from __future__ import annotations

from dataclasses import dataclass, replace

from inference.domain.telemetry_level import TelemetryLevel

Attribute = str | int | float | bool
NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class TelemetryEvent:
    """`start_unix_ns` and `end_unix_ns` are Unix nanoseconds; what has no length lasts one.

    `request_id` is empty for what belongs to no request. `attributes` hold no prompt, no answer and
    no key, and nothing in them is unknown (None).
    """

    name: str
    level: TelemetryLevel
    request_id: str
    start_unix_ns: int
    end_unix_ns: int
    attributes: tuple[tuple[str, Attribute], ...] = ()

    @property
    def elapsed_s(self) -> float:
        return (self.end_unix_ns - self.start_unix_ns) / NS_PER_S

    def with_attributes(self, more: dict[str, Attribute]) -> TelemetryEvent:
        return replace(self, attributes=(*self.attributes, *more.items()))
