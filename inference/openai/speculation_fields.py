"""What a body says about speculation: a field of ours, since other servers leave that to their operators."""

from __future__ import annotations

from inference.domain.speculation import MAX_DRAFT_TOKENS, SpeculationChoice, SpeculationMode
from inference.openai.fields import Fields

_MAX_SHOWN_CHARS = 64


def read_speculation(fields: Fields) -> SpeculationChoice | None:
    """`speculation: {"mode": …, "max_draft_tokens": …}`; None where it is not there. Whether the model has
    the mode is not known yet. Raises InvalidRequest."""
    given = fields.mapping("speculation")
    if given is None:
        return None
    inner = Fields(given, "speculation.")
    mode = inner.choice("mode", [mode.value for mode in SpeculationMode])
    if mode is None:
        raise inner.missing("mode")
    max_draft_tokens = inner.integer("max_draft_tokens", 1, MAX_DRAFT_TOKENS)
    for name in inner.unknown():
        raise inner.fail(name[:_MAX_SHOWN_CHARS], "there is no such member")
    return SpeculationChoice(SpeculationMode(mode), max_draft_tokens)
