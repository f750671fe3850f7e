"""Kept texts read again: the request by the rules for clients, the answer as far as one text tells it."""

from __future__ import annotations

import json
import re
from typing import Any

from hooks.contracts.view import OutputText, RequestView
from hooks.replaying import Gap, PastText
from inference.domain.errors import SkippyError
from inference.hooking.views import request_view
from skippy_site.said_answers import Call, output_text
from skippy_site.wire_readers import WIRE_READERS

# Where calls may begin: a line for each (inference/api/answer_keeper.py).
_CALL = re.compile(r"^([^\s(]{1,128})\(", re.MULTILINE)
_MAX_STARTS = 200
_DECODER = json.JSONDecoder()


def past_text(
    request: str,
    answer: str,
    *,
    endpoint: str,
    finish_reason: str,
    is_stored: bool,
    is_continued: bool,
) -> PastText:
    """`answer` is a response's object where it `is_stored`; one that `is_continued` has its beginning in
    another's text."""
    view: RequestView | None = None
    gap = Gap.CONTINUED.value if is_continued else ""
    try:
        read = WIRE_READERS[endpoint](request.encode(), strict_fields=False)
        view = request_view(read, endpoint=endpoint)
    except (SkippyError, KeyError, ValueError, RecursionError):
        gap = Gap.UNREADABLE.value
    output, output_gap = _output(view, answer, finish_reason=finish_reason, is_stored=is_stored)
    return PastText(None if gap else view, gap, output, output_gap)


def _output(
    view: RequestView | None, answer: str, *, finish_reason: str, is_stored: bool
) -> tuple[OutputText | None, str]:
    if is_stored:
        found = _stored_answer(answer)
        return (None, Gap.UNREADABLE.value) if found is None else (output_text(*found), "")
    if view is None:
        return None, Gap.UNREADABLE.value
    if view.parameters.get("echo"):
        return None, Gap.ECHO.value
    if (view.parameters.get("n") or 1) != 1 or len(view.prompts) > 1:
        return None, Gap.MANY_ANSWERS.value
    if not view.tool_names or finish_reason == "stop":
        return output_text(answer), ""
    parts = _with_calls(answer, frozenset(view.tool_names))
    if parts is None:
        if finish_reason == "tool_calls" or _CALL.search(answer):
            return None, Gap.CALLS.value
        return output_text(answer), ""
    return output_text(*parts), ""


def _with_calls(answer: str, names: frozenset[str]) -> tuple[str, list[Call]] | None:
    """The content, and the calls behind it; None where there are none that can be told from it."""
    starts = [found for found in _CALL.finditer(answer) if found[1] in names]
    for found in starts[:_MAX_STARTS]:
        calls = _calls(answer[found.start() :])
        if calls:
            return answer[: max(0, found.start() - 1)], calls
    return None


def _calls(text: str) -> list[Call] | None:
    calls: list[Call] = []
    place = 0
    while True:
        begin = _CALL.match(text, place)
        if begin is None:
            return None
        try:
            _, end = _DECODER.raw_decode(text, begin.end())
        except (ValueError, RecursionError):
            return None
        if not text.startswith(")", end):
            return None
        calls.append((begin[1], text[begin.end() : end]))
        if end + 1 == len(text):
            return calls
        if text[end + 1] != "\n":
            return None
        place = end + 2


def _stored_answer(written: str) -> tuple[str, list[Call]] | None:
    try:
        items: list[dict[str, Any]] = json.loads(written)["output"]
        texts = [
            part["text"]
            for item in items
            if item["type"] == "message"
            for part in item["content"]
            if part["type"] == "output_text"
        ]
        calls = [(item["name"], item["arguments"]) for item in items if item["type"] == "function_call"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return "".join(texts), calls
