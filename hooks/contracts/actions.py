"""What a policy may do, as values. Who applies them is elsewhere (hooks/applying, and the generation).

Not every action makes sense at every point: `ACTIONS_AT` says which do, and a policy with another is not
saved. A webhook's answer is held to the same table, and to the policy's rights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from hooks.contracts.points import HookPoint
from hooks.contracts.view import MediaSort, ParameterValue

MIN_DENY_STATUS, MAX_DENY_STATUS = 400, 499


class StopReason(StrEnum):
    """The finish reason that a client is told."""

    STOP = "stop"
    CONTENT_FILTER = "content_filter"


class TextTarget(StrEnum):
    """Which text an action on text is for."""

    INPUT = "input"
    CONTENT = "content"
    REASONING = "reasoning"
    ARGUMENTS = "arguments"


class MaskKind(StrEnum):
    """Things that are found by more than a pattern."""

    EMAIL = "email"
    CARD_NUMBER = "card_number"


@dataclass(frozen=True, slots=True)
class Deny:
    """Refuse the request, or end a running one with an error."""

    message: str
    status: int = 403
    code: str = "permission_denied"


@dataclass(frozen=True, slots=True)
class InjectText:
    """Before the generation: in front of the last user message. In a running generation: as tokens (never
    control tokens) in place of the token that was just drawn. `is_shown`: the client gets it, too."""

    text: str
    is_shown: bool = False


@dataclass(frozen=True, slots=True)
class AddSystemPrompt:
    """Where `is_before`, in front of the system prompt that is there, otherwise behind it; a message of its
    own where there is none. `unless_present`: nothing where the same text is there already."""

    text: str
    is_before: bool = True
    unless_present: bool = True


@dataclass(frozen=True, slots=True)
class SetParameter:
    """`name` is the wire's name; a value of None takes the parameter away, so that the default holds."""

    name: str
    value: ParameterValue


@dataclass(frozen=True, slots=True)
class ClampParameter:
    """Keep a number within bounds. One that was not sent counts as over `maximum`: it is set to it."""

    name: str
    minimum: float | None = None
    maximum: float | None = None


@dataclass(frozen=True, slots=True)
class MaskText:
    """Replace what matches, wherever it stands in `targets`: `kinds`, `words` (any case, any Unicode form,
    zero-width characters between them or not) and `patterns` (RE2)."""

    targets: tuple[TextTarget, ...]
    kinds: tuple[MaskKind, ...] = ()
    words: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    replacement: str = "***"


@dataclass(frozen=True, slots=True)
class ReplaceText:
    """Put `text` in place of all of the target; of the input, of the last user message's text, or of each
    prompt."""

    target: TextTarget
    text: str


@dataclass(frozen=True, slots=True)
class ConsumeMedia:
    """Take a picture or a sound out of a user's message. It is taken only if message, part, sort and
    address are those given; without them, the first one of the last user message (`sort` and `url` None).
    `user_text` is put where it was."""

    sort: MediaSort | None = None
    url: str | None = None
    message_index: int | None = None
    part_index: int | None = None
    user_text: str = ""


@dataclass(frozen=True, slots=True)
class StopGeneration:
    """End the answer here, as a whole and valid one. At OUTPUT with CONTENT_FILTER, without the text that was
    about to be released; with STOP, behind it."""

    reason: StopReason = StopReason.CONTENT_FILTER


@dataclass(frozen=True, slots=True)
class Tag:
    """Write a word on the request's record."""

    name: str
    value: str = ""


@dataclass(frozen=True, slots=True)
class CapsuleMarker:
    """Name the exchange in the answer's headers (whole answers that succeeded). An id that is no legal
    header value is dropped and recorded. None makes a new one."""

    capsule_id: str | None = None
    nonce: str | None = None


@dataclass(frozen=True, slots=True)
class CallWebhook:
    """Ask the webhook of this id (hooks/webhooks); its answer is a list of the other actions."""

    webhook_id: int


Action = (
    Deny
    | InjectText
    | AddSystemPrompt
    | SetParameter
    | ClampParameter
    | MaskText
    | ReplaceText
    | ConsumeMedia
    | StopGeneration
    | Tag
    | CapsuleMarker
    | CallWebhook
)

_ALWAYS: frozenset[type] = frozenset({Tag, CallWebhook})
ACTIONS_AT: Mapping[HookPoint, frozenset[type]] = {
    HookPoint.BEFORE: _ALWAYS
    | {
        Deny,
        InjectText,
        AddSystemPrompt,
        SetParameter,
        ClampParameter,
        MaskText,
        ReplaceText,
        ConsumeMedia,
        CapsuleMarker,
    },
    HookPoint.EFFECTIVE: _ALWAYS,
    HookPoint.AFTER_PREFILL: _ALWAYS | {Deny, InjectText, StopGeneration},
    HookPoint.MID_GENERATION: _ALWAYS | {Deny, InjectText, StopGeneration},
    HookPoint.OUTPUT: _ALWAYS | {Deny, StopGeneration, MaskText, ReplaceText, CapsuleMarker},
    HookPoint.TERMINAL: _ALWAYS,
}
