"""The phases of a request that are worth a span of their own, beside what admission tells.

Where a request's time goes before and after the engine: template, tokenizer, prompt as a whole, policies, the
writing of the answer. Only a trace shows them (debug level), so an event is made and forgotten where
nobody traces; but for PoliciesConcluded, which no record tells.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChatTemplateRendered:
    """Messages became the text of a prompt; `num_prompt_bytes` counts that text in UTF-8."""

    request_id: str
    elapsed_s: float
    num_messages: int
    num_prompt_bytes: int


@dataclass(frozen=True, slots=True)
class Tokenized:
    """The text of a prompt became tokens."""

    request_id: str
    elapsed_s: float
    num_tokens: int


@dataclass(frozen=True, slots=True)
class PromptPrepared:
    """All that it took from a validated body to the tokens, waiting for the thread pool included."""

    request_id: str
    elapsed_s: float
    num_tokens: int


@dataclass(frozen=True, slots=True)
class MediaEncoded:
    """Pictures and sounds became embeddings, or were found to be there; waiting for turns included."""

    request_id: str
    elapsed_s: float
    num_items: int
    num_tokens: int


@dataclass(frozen=True, slots=True)
class ResponseBuilt:
    """The answer, or what ends a stream, was written as JSON."""

    request_id: str
    elapsed_s: float
    num_bytes: int
    is_stream: bool


@dataclass(frozen=True, slots=True)
class PoliciesAsked:
    """Policies were asked at one `point` of the request, and made `num_decisions` that are on its record.
    `choice` is the answer's index where the point is one of a generation."""

    request_id: str
    elapsed_s: float
    point: str
    num_decisions: int
    choice: int | None = None


@dataclass(frozen=True, slots=True)
class PoliciesConcluded:
    """Policies at the end of a request came to something, when its record was written already: their names,
    and those of the tags that they gave."""

    request_id: str
    elapsed_s: float
    policies: tuple[str, ...]
    tags: tuple[str, ...]


PhaseEvent = (
    ChatTemplateRendered
    | Tokenized
    | PromptPrepared
    | MediaEncoded
    | ResponseBuilt
    | PoliciesAsked
    | PoliciesConcluded
)
