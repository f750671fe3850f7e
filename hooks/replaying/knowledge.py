"""Which of a condition's variables are known of a past request, and why each of the others is not.

A record has who asked for what, and how it ended. What was sent beside that is kept with its text or not at
all; what was only there while it ran (how sure the model was, what was held back of a stream) is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any

from hooks.conditions import Moment, RequestTexts
from hooks.contracts.exchange import TerminalOutcome
from hooks.contracts.points import HookPoint
from hooks.contracts.view import RequestView
from hooks.replaying.past_request import PastRequest


class Gap(StrEnum):
    """Why something is not known of a request; the value is what people read."""

    NO_TEXT = "what it reads is kept with the text only, and no text is kept"
    CLOSED = "what it reads is kept with the text, which who asked may not view"
    UNMASKED = "what it would mask is not known without the text"
    CONTINUED = "it goes on from an earlier response, and is not all of what was asked"
    UNREADABLE = "what is kept of it cannot be read as a request"
    TOKENS = "a prompt came as token ids, and what they say is not kept"
    CHANGED = "policies had changed the request, and what they made of it is not kept"
    NO_ANSWER = "its answer is not kept"
    MANY_ANSWERS = "several answers are kept as one text"
    CALLS = "its calls cannot be told from its text any more"
    ECHO = "its prompt is repeated in its answer"
    THINKING = "it reads thinking, which is not kept"
    STREAM = "it reads how far a stream had come"
    ERASED = "names were erased"
    CUT = "the record has what it reads cut or replaced"
    OPT_IN = "whether it asked for optional policies is kept with the text only"
    GONE = "it reads what is not recorded"


# What the record itself has, however little else is kept. Each is read as the variable of that name is.
_RECORDED: Mapping[str, Callable[[PastRequest], Any]] = {
    "model": lambda past: past.model,
    "principal.user": lambda past: past.caller.username,
    "principal.team": lambda past: past.caller.team_name,
    "principal.key": lambda past: past.caller.key_name,
    "request.endpoint": lambda past: past.endpoint,
    "request.stream": lambda past: past.is_stream,
    "request.end_user": lambda past: past.end_user,
    "request.metadata": lambda past: tuple(sorted((past.metadata or {}).items())),
    "outcome.kind": lambda past: past.outcome_kind,
    "outcome.status": lambda past: past.outcome_status,
    "outcome.text": lambda past: "",
}
_NAMES = frozenset({"principal.user", "principal.key"})
_STREAM_PLACES = frozenset({"output.num_released_chars", "output.is_last"})


def gaps(past: PastRequest, point: HookPoint, names: Iterable[str]) -> dict[str, Gap]:
    """Those of the variables that are not known, each with why."""
    found: dict[str, Gap] = {}
    for name in names:
        gap = _gap(past, point, name)
        if gap is not None:
            found[name] = gap
    return found


def record_key(past: PastRequest, names: Iterable[str]) -> tuple[Any, ...]:
    """Equal for records of which these variables are known alike, text aside."""
    return tuple([_RECORDED[name](past) for name in names if name in _RECORDED])


def past_moment(past: PastRequest, point: HookPoint) -> Moment:
    """What is known, as conditions read it; what is not known has some value that must not be read."""
    view = None if past.text is None else past.text.request
    if view is None:
        view = RequestView(
            endpoint=past.endpoint,
            model="",
            is_stream=past.is_stream,
            end_user=past.end_user or "",
            metadata=past.metadata or {},
        )
    output = None if past.text is None else past.text.output
    texts = (output.content,) if output is not None and _has_told_text(past) else ()
    return Moment(
        point=point,
        caller=past.caller,
        model=past.model,
        texts=RequestTexts(view),
        choice=0,
        output=output if point is HookPoint.OUTPUT else None,
        outcome=TerminalOutcome(past.outcome_kind, past.outcome_status, texts=texts),
    )


def _gap(past: PastRequest, point: HookPoint, name: str) -> Gap | None:
    if name in _NAMES:
        return Gap.ERASED if past.is_erased else None
    part = name.partition(".")[0]
    if name.startswith("outcome.") or name in ("model", "principal.team"):
        return _answer_gap(past) if name == "outcome.text" and _has_told_text(past) else None
    if name in ("request.endpoint", "request.stream"):
        return None
    if part in ("request", "text"):
        return _request_gap(past, point, name)
    if part == "output" or name == "choice":
        return _output_gap(past, name)
    return Gap.GONE


def _request_gap(past: PastRequest, point: HookPoint, name: str) -> Gap | None:
    # No action changes whose request it is and what it says of itself.
    if name in ("request.end_user", "request.metadata"):
        value = past.end_user if name == "request.end_user" else past.metadata
        if value is not None:
            return None
        if past.text is None or past.text.request is None:
            return Gap.ERASED if past.is_erased else Gap.CUT
        return None
    gap = request_gap(past)
    is_of_text = name.startswith("text.") or name == "request.num_chars"
    if gap is None and is_of_text and has_unseen(past):
        return Gap.TOKENS
    if gap is None and past.is_changed and point is not HookPoint.BEFORE:
        is_kept = name in ("request.model", "request.opts_in", "request.fields", "request.tools")
        return None if is_kept else Gap.CHANGED
    return gap


def request_gap(past: PastRequest) -> Gap | None:
    """Why what was sent is not known."""
    if past.text is None:
        return Gap.CLOSED if past.is_text_closed else Gap.NO_TEXT
    return None if past.text.request is not None else Gap(past.text.request_gap)


def has_unseen(past: PastRequest) -> bool:
    """Whether part of what was asked is there as token ids only."""
    view = None if past.text is None else past.text.request
    return view is not None and view.has_unseen_prompts


def _answer_gap(past: PastRequest) -> Gap | None:
    if past.text is None:
        return Gap.CLOSED if past.is_text_closed else Gap.NO_TEXT
    return None if past.text.output is not None else Gap(past.text.output_gap)


def _output_gap(past: PastRequest, name: str) -> Gap | None:
    if name in _STREAM_PLACES and past.is_stream:
        return Gap.STREAM
    gap = _answer_gap(past)
    if gap is None and name in ("output.reasoning", "output.folded") and past.has_thinking:
        return Gap.THINKING
    return gap


def _has_told_text(past: PastRequest) -> bool:
    """Whether policies at the end were told the answer: only that of a whole one."""
    return past.outcome_kind == "success"
