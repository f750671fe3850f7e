"""What came of a policy at one firing of its point: for the record, the metrics and who asked."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from hooks.contracts.actions import InjectText, StopReason, TextTarget
from hooks.contracts.points import HookPoint


class DecisionResult(StrEnum):
    """APPLIED; OBSERVED (would have been applied); REFUSED (matched, but could not be applied there: in a
    grammar, in a tool call, against its rights); FAILED_OPEN and FAILED_CLOSED (could not be evaluated)."""

    APPLIED = "applied"
    OBSERVED = "observed"
    REFUSED = "refused"
    FAILED_OPEN = "failed_open"
    FAILED_CLOSED = "failed_closed"


@dataclass(frozen=True, slots=True)
class Decision:
    """Of a policy that matched or failed; those that did not match are only counted. `actions` are names of
    actions, `reason` says why in a few words and holds nothing that anybody wrote. `choice` is the answer's
    index where the point is one of a generation. Tokens are those that its injection put in and took out."""

    policy_id: int
    policy: str
    point: HookPoint
    actions: tuple[str, ...]
    result: DecisionResult
    reason: str = ""
    choice: int | None = None
    elapsed_s: float = 0.0
    num_injected_tokens: int = 0
    num_discarded_tokens: int = 0


class Firing(NamedTuple):
    """One policy was asked at one point: what metrics count, also where it did not match. Made for each of
    them at each firing, which a named tuple is quicker at."""

    policy_id: int
    policy: str
    point: HookPoint
    has_matched: bool
    result: DecisionResult | None
    elapsed_s: float


class HookDenied(Exception):
    """A policy refuses the request. `message` is the policy's own and for the caller's eyes."""

    def __init__(self, message: str, *, status: int, code: str, policy: str) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code
        self.policy = policy


class HookFailed(Exception):
    """A policy that has to be asked could not be: the request is refused as long as that is so."""

    def __init__(self, policy: str) -> None:
        super().__init__("A policy of this service could not be evaluated.")
        self.policy = policy


@dataclass(frozen=True, slots=True)
class GenerationVerdict:
    """What is to become of a running generation; without a word it goes on. Where both are there, the text
    comes first. Denials are raised."""

    injections: tuple[InjectText, ...] = ()
    stop: StopReason | None = None
    decision_places: tuple[int, ...] = ()
    """Which of the exchange's decisions the injections are of, for `note_injection`."""


@dataclass(frozen=True, slots=True, repr=False)
class TextEdit:
    """`text` in place of the characters from `start` to `end` of one text of an OutputText, as that was
    given; `call` is the tool call where they are of its arguments. Places and not the changed text, because
    who releases a stream has to know which characters an edit stands for: it may cut there only."""

    target: TextTarget
    start: int
    end: int
    text: str
    call: int | None = None

    def __repr__(self) -> str:
        return f"<TextEdit {self.target.value} {self.start}:{self.end}>"


@dataclass(frozen=True, slots=True)
class OutputVerdict:
    """What is to become of text that is about to be released; without a word it goes out as it is. `edits`
    of one text are in order and do not overlap. With `stop` the answer ends here: for CONTENT_FILTER nothing
    of the text goes out but what was put in place of a whole text, for STOP all of it does, as edited."""

    edits: tuple[TextEdit, ...] = ()
    stop: StopReason | None = None
