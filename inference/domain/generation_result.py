"""What is known of an answer once its text has ended."""

from __future__ import annotations

from dataclasses import dataclass

from inference.domain.events import FinishReason, Usage
from inference.domain.timings import Timings


@dataclass(frozen=True, slots=True)
class GenerationResult:
    """`stop` is the stop string that ended the answer, None where none did: OpenAI's reason is STOP either
    way, other wires tell them apart."""

    reason: FinishReason
    usage: Usage
    timings: Timings
    stop: str | None = None
