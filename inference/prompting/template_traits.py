"""What a chat template can be given: found out by rendering, once, when it is loaded.

Templates agree on the names of their variables and on little else. Some want contents as text, some as
parts; some refuse a system turn, or a second one, or drop it without a word; some write a call's
arguments as they come, some only as an object; two families of models want call ids of nine characters.
None of it can be read off the source, so small conversations with unlikely words in them are rendered,
and what counts is whether the words come out.

The questions are those of llama.cpp (common/jinja/caps.cpp), which watches the template's accesses
instead.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inference.domain.errors import InvalidRequest
from inference.prompting.chat_template import ChatTemplate, UnusableTemplate
from inference.prompting.thinking_history import Markers, thinking_markers
from inference.prompting.written_calls import CallNotation, notation_of

Turn = dict[str, Any]

# Under which names templates look for an assistant's thinking, the usual one first.
_REASONING_KEYS = ("reasoning_content", "thinking", "reasoning")
MAX_TRIAL_CPU_S = 2.0
_LONG_ID, _SHORT_ID = "call_0123456789abcdef", "q0w1e2r3t"


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateTraits:
    """`wants_typed_content`: contents are lists of parts. `has_system_role`: a first system turn is
    written; `has_late_system`: so is one behind others.

    `wants_tool_list`: where there are no tools, it must be told so by an empty list.

    `has_tools`: tools, calls and results are all written; the calls in `call_notation` where the template
    itself leaves them out. `wants_object_arguments`: a call's arguments must
    be an object; else they are text, as the model wrote it. `wants_short_ids`: call ids are nine letters
    and digits. `has_parallel_calls`: one turn may have several calls. `has_calls_beside_text`: a call
    is written, too, where its turn has text.

    `reasoning_key` is a message's field for thinking, None where the template has none.
    """

    wants_typed_content: bool = False
    has_system_role: bool = True
    has_late_system: bool = True
    wants_tool_list: bool = False
    has_tools: bool = False
    call_notation: CallNotation | None = None
    wants_object_arguments: bool = False
    wants_short_ids: bool = False
    has_parallel_calls: bool = True
    has_calls_beside_text: bool = True
    reasoning_key: str | None = None
    thinking_markers: tuple[Markers, ...] = ()


def template_traits(template: ChatTemplate) -> TemplateTraits:
    """Some twenty renderings of a few lines each. Raises UnusableTemplate where they take too long."""
    trial = _Trial(template)
    ways: list[tuple[bool, list[Turn] | None]] = [(False, None), (False, []), (True, None), (True, [])]
    is_typed, no_tools = next(
        (
            (typed, tools)
            for typed, tools in ways
            if "qzuser" in trial.rendered([_turn("user", "qzuser", typed)], {"tools": tools})
        ),
        ways[0],
    )
    probe = _Probe(trial, is_typed=is_typed, no_tools=no_tools)
    calls = probe.calls()
    notation = notation_of(template.source) if calls is None and probe.writes_results() else None
    return TemplateTraits(
        wants_typed_content=is_typed,
        wants_tool_list=no_tools is not None,
        has_system_role=probe.has_system_role(),
        has_late_system=probe.has_late_system(),
        has_tools=(calls is not None or notation is not None) and probe.describes_tools(),
        call_notation=notation,
        wants_object_arguments=calls is not None and calls.is_object,
        wants_short_ids=calls is not None and calls.call_id == _SHORT_ID,
        has_parallel_calls=calls is None or probe.has_parallel_calls(calls),
        has_calls_beside_text=calls is None or probe.has_calls_beside_text(calls),
        reasoning_key=probe.reasoning_key(calls),
        thinking_markers=thinking_markers(template.literals),
    )


class _Trial:
    """Renders with one template, for a bounded time in all."""

    def __init__(self, template: ChatTemplate) -> None:
        self._template = template
        self._until_s = time.thread_time() + MAX_TRIAL_CPU_S

    def rendered(self, turns: Sequence[Turn], variables: Mapping[str, object]) -> str:
        """ "" where the template refuses."""
        if time.thread_time() > self._until_s:
            raise UnusableTemplate("the chat template takes too long for a few words")
        try:
            return self._template.render(turns, variables)
        except InvalidRequest:
            return ""


@dataclass(frozen=True, slots=True)
class _CallShape:
    """How a call is given to a template that writes calls."""

    is_object: bool
    call_id: str

    def call(self, word: str, call_id: str | None = None) -> dict[str, Any]:
        arguments: object = {"qzarg": word} if self.is_object else f'{{"qzarg": "{word}"}}'
        return {
            "id": call_id or self.call_id,
            "type": "function",
            "function": {"name": "qztool", "arguments": arguments},
        }


class _Probe:
    def __init__(self, trial: _Trial, *, is_typed: bool, no_tools: list[Turn] | None) -> None:
        self._trial = trial
        self._is_typed = is_typed
        self._no_tools = no_tools

    def has_system_role(self) -> bool:
        return self._writes(("system", "qzsystem"), ("user", "qzuser"))

    def has_late_system(self) -> bool:
        first, user, late = ("system", "qzsystem"), ("user", "qzuser"), ("system", "qzlate")
        return self._writes(first, late, user) and self._writes(
            first, user, ("assistant", "qzanswer"), late, user
        )

    def describes_tools(self) -> bool:
        system, user = self._turn("system", "qzsystem"), self._turn("user", "qzuser")
        return any("qztool" in self._rendered(turns) for turns in ([user], [system, user]))

    def calls(self) -> _CallShape | None:
        """The first shape of call that is written well, result and all."""
        for call_id in (_LONG_ID, _SHORT_ID):
            for is_object in (False, True):
                shape = _CallShape(is_object, call_id)
                text = self._rendered(self._called([shape.call("qzvalue")]))
                as_text = '{"qzarg": "qzvalue"}' in text
                as_object = "qzarg" in text and "qzvalue" in text and "{'qzarg': 'qzvalue'" not in text
                has_rest = "qztool" in text and "qzresult" in text
                if has_rest and (as_object if is_object else as_text):
                    return shape
        return None

    def writes_results(self) -> bool:
        """Where the calls before them are text."""
        turns = self._called([])
        turns.insert(2, {**self._turn("tool", "qzresult"), "tool_call_id": _LONG_ID, "name": "qztool"})
        return "qzresult" in self._rendered(turns)

    def has_parallel_calls(self, shape: _CallShape) -> bool:
        other_id = shape.call_id[::-1]
        text = self._rendered(self._called([shape.call("qzvalue"), shape.call("qzother", other_id)]))
        return "qzvalue" in text and "qzother" in text

    def has_calls_beside_text(self, shape: _CallShape) -> bool:
        turns = self._called([shape.call("qzvalue")])
        turns[1] = {**turns[1], **self._turn("assistant", "qztext")}
        return "qzvalue" in self._rendered(turns)

    def reasoning_key(self, shape: _CallShape | None) -> str | None:
        """In an answer, or in the turn of a call: some write thinking only where it led to one."""
        user = self._turn("user", "qzuser")
        thinking = {"enable_thinking": True, "thinking": True}
        for key in _REASONING_KEYS:
            answer = {**self._turn("assistant", "qzanswer"), key: "qzthought"}
            if "qzthought" in self._trial.rendered([user, answer], {**thinking, "tools": self._no_tools}):
                return key
            if shape is not None:
                turns = self._called([shape.call("qzvalue")])[:3]
                turns[1][key] = "qzthought"
                if "qzthought" in self._trial.rendered(turns, {**thinking, **_OFFER}):
                    return key
        return None

    def _called(self, calls: Sequence[dict[str, Any]]) -> list[Turn]:
        """A question, calls, their results, and what came of them."""
        user, answer = self._turn("user", "qzuser"), self._turn("assistant", "qzanswer")
        asked = self._turn("assistant", "")
        if calls:
            asked["tool_calls"] = list(calls)
        results = [
            {**self._turn("tool", "qzresult"), "tool_call_id": call["id"], "name": "qztool"} for call in calls
        ]
        return [user, asked, *results, answer, user]

    def _turn(self, role: str, text: str) -> Turn:
        return _turn(role, text, self._is_typed)

    def _rendered(self, turns: Sequence[Turn]) -> str:
        return self._trial.rendered(turns, _OFFER)

    def _writes(self, *turns: tuple[str, str]) -> bool:
        """Whether the texts of all these roles' turns come out."""
        text = self._trial.rendered([self._turn(*turn) for turn in turns], {"tools": self._no_tools})
        return all(word in text for _, word in turns)


_TOOL = {
    "type": "function",
    "function": {
        "name": "qztool",
        "description": "qzdescription",
        "parameters": {
            "type": "object",
            "properties": {"qzarg": {"type": "string", "description": "qzargument"}},
            "required": ["qzarg"],
        },
    },
}

_OFFER = {"tools": [_TOOL], "tool_choice": "auto", "parallel_tool_calls": True}


def _turn(role: str, text: str, is_typed: bool) -> Turn:
    return {"role": role, "content": [{"type": "text", "text": text}] if is_typed else text}
