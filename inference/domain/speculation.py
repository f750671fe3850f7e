"""Drafting tokens before the model has said them, so that one step may compute several of an answer.

The model has the last word on every token: with speculation an answer is what it would be without it,
only sooner, or, where drafts are mostly wrong, later. So it is governed, and off by default.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

# Longer drafts are hardly ever right to their end.
MAX_DRAFT_TOKENS = 64


class SpeculationMode(Enum):
    """Where drafts come from."""

    OFF = "off"
    PROMPT_LOOKUP = "prompt_lookup"
    """From what stands in prompt and answer already (behind the longest end that occurs again)."""
    DRAFT_MODEL = "draft_model"
    """From a smaller model of the same vocabulary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculationSettings:
    """How one model's answers are drafted. `max_draft_tokens` bounds a draft's length; `allows_requests`:
    requests may choose another mode than `mode`, of those that the model has."""

    mode: SpeculationMode = SpeculationMode.OFF
    max_draft_tokens: int = 8
    allows_requests: bool = True
    draft_source: str = ""
    """The draft model: a GGUF file's path or hf:…; empty: none."""


@dataclass(frozen=True, slots=True)
class SpeculationChoice:
    """What a request says: this mode, OFF included, and drafts of at most so many tokens (None: as many as
    the model is set to)."""

    mode: SpeculationMode
    max_draft_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class SpeculationRequest:
    """What one generation wants; never OFF, which is None where this is asked for."""

    mode: SpeculationMode
    max_draft_tokens: int
