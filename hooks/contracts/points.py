"""Where in the way of a request a policy may speak, in the order in which a request passes them."""

from __future__ import annotations

from enum import StrEnum


class HookPoint(StrEnum):
    """One of the points; their names are those of the wire, the database and the metrics.

    BEFORE: the request as the client sent it, validated; it may be denied and changed here.
    EFFECTIVE: the request as all of BEFORE left it; here it can only be looked at (observed, tagged).
    AFTER_PREFILL: the prompt is computed, and how sure the model is of its first token is known.
    MID_GENERATION: the model was lost or repeated itself over the last tokens.
    OUTPUT: text of the answer, before it is released to the client.
    TERMINAL: the request has ended, in whatever way; once, and nothing can be changed any more.
    """

    BEFORE = "before_chat_completion"
    EFFECTIVE = "on_effective_chat_completion"
    AFTER_PREFILL = "after_prefill"
    MID_GENERATION = "mid_generation"
    OUTPUT = "before_output"
    TERMINAL = "terminal"
