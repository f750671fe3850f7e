"""One conversation through one template: the prompt's text, and the text that its answer goes on from.

Where the answer begins is not something that a template says. It is what the template writes when it is
asked for a generation prompt and does not write otherwise; so the last exchange is rendered both ways,
which costs little however long the conversation is, and is remembered. An answer that is continued is the
template's own rendering of it, up to a mark at its end, so that it stands behind whatever the template
puts in front of an answer (an empty thinking block, a channel's name).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from inference.domain.conversation import Conversation
from inference.domain.errors import InvalidRequest
from inference.domain.messages import ChatMessage
from inference.prompting.answer_begins import begin_key
from inference.prompting.control_text import PromptMarks
from inference.prompting.template_library import PreparedTemplate
from inference.prompting.template_traits import Turn
from inference.prompting.template_turns import TurnWriter, arranged


@dataclass(frozen=True, slots=True)
class RenderedChat:
    """Both with the marks of their rendering; `text` ends with `answer_begin`."""

    text: str
    answer_begin: str


def render_chat(prepared: PreparedTemplate, conversation: Conversation, marks: PromptMarks) -> RenderedChat:
    """Raises InvalidRequest with what the template objects to, which may quote guarded text."""
    rendering = _Rendering(prepared, conversation, marks)
    try:
        return rendering.rendered()
    except InvalidRequest:
        if not any(message.reasoning for message in conversation.messages):
            raise
    # Some templates refuse thinking beside text or calls; without it the history is still true.
    rendering.has_reasoning = False
    return rendering.rendered()


class _Rendering:
    def __init__(self, prepared: PreparedTemplate, conversation: Conversation, marks: PromptMarks) -> None:
        options, traits = conversation.template, prepared.traits
        self.has_reasoning = True
        self._template = prepared.template
        self._begins = prepared.begins
        self._traits = traits
        self._marks = marks
        self._options = options
        self._messages = arranged(conversation.messages, traits, is_continued=options.is_continued)
        self._writer = TurnWriter(traits, marks)
        said = {**conversation.reasoning.template_variables, **marks.guard_json(dict(options.kwargs))}
        self._begin_key = begin_key(self._messages[-1].role, said)
        self._variables: dict[str, object] = {
            **said,
            "documents": marks.guard_json(options.documents) or None,
        }
        tool_use = conversation.tool_use
        if traits.wants_tool_list:
            self._variables["tools"] = []
        if tool_use.tools:
            self._variables["tools"] = self._writer.tools(tool_use.tools)
            self._variables["tool_choice"] = self._writer.tool_choice(tool_use)
            self._variables["parallel_tool_calls"] = tool_use.is_parallel

    def rendered(self) -> RenderedChat:
        if self._options.is_continued:
            return self._continued(self._messages[:-1], self._messages[-1])
        turns = self._turns(self._messages)
        text = self._render(turns, self._options.has_generation_prompt)
        if not self._options.has_generation_prompt:
            return RenderedChat(text, "")
        return RenderedChat(text, self._answer_begin(text, turns))

    def _continued(self, before: Sequence[ChatMessage], last: ChatMessage) -> RenderedChat:
        """The last turn up to its end, in the template's words if it writes that turn as it is."""
        is_thinking = not last.content and last.reasoning is not None
        if is_thinking and (self._traits.reasoning_key is None or not self.has_reasoning):
            raise InvalidRequest(
                "Invalid 'messages': this model's chat template cannot continue thinking.", param="messages"
            )
        if is_thinking:
            self._variables = {"enable_thinking": True, "thinking": True, **self._variables}
        end = self._marks.end
        # The mark is put where the text is put that it ends: no text of a caller's contains it.
        marked = (
            replace(last, reasoning=f"{last.reasoning}{end}")
            if is_thinking
            else replace(last, content=f"{last.content or ''}{end}")
        )
        head = self._turns(before)
        whole = self._turns((*before, marked))
        try:
            text, is_found, _ = self._render(whole, False).rpartition(end)
        except InvalidRequest:
            is_found = ""  # it wants a user's turn last, or its turns to alternate
        if is_found:
            text = text.replace(end, "")
            return RenderedChat(text, self._behind(head, text))
        if is_thinking or not head:
            raise InvalidRequest(
                "Invalid 'messages': this model's chat template cannot continue this message.",
                param="messages",
            )
        text, said = self._render(head, True), self._marks.guard(last.content or "")
        return RenderedChat(text + said, self._answer_begin(text, head) + said)

    def _behind(self, head: Sequence[Turn], text: str) -> str:
        """What `text` has beyond the turns of `head`; all of it where they cannot stand alone."""
        try:
            return _suffix(text, self._render(head, False))
        except InvalidRequest:
            return text

    def _answer_begin(self, text: str, turns: Sequence[Turn]) -> str:
        """What is behind the last turn of `text`, the rendering of `turns` with a generation prompt."""
        known = self._begins.find(text, self._begin_key)
        if known is not None:
            return known
        for shown in (_last_exchange(turns), turns):
            try:
                begin = _suffix(self._render(shown, True), self._render(shown, False))
            except InvalidRequest:
                continue
            if text.endswith(begin):
                self._begins.remember(begin, self._begin_key)
                return begin
        return ""

    def _turns(self, messages: Sequence[ChatMessage]) -> list[Turn]:
        return self._writer.turns(messages, has_reasoning=self.has_reasoning)

    def _render(self, turns: Sequence[Turn], has_generation_prompt: bool) -> str:
        return self._template.render(
            turns, {**self._variables, "add_generation_prompt": has_generation_prompt}
        )


def _last_exchange(turns: Sequence[Turn]) -> list[Turn]:
    """The last user's turn, and the call and its results if those came last."""
    last_user = next((index for index in reversed(range(len(turns))) if turns[index]["role"] == "user"), 0)
    num_results = 0
    while num_results < len(turns) and turns[-1 - num_results]["role"] == "tool":
        num_results += 1
    first = max(last_user + 1, len(turns) - num_results - 1) if num_results else len(turns)
    return [*turns[last_user : last_user + 1], *turns[first:]]


def _suffix(longer: str, shorter: str) -> str:
    """`longer` without what both begin with."""
    if longer.startswith(shorter):
        return longer[len(shorter) :]
    size = 0
    for one, other in zip(longer, shorter, strict=False):
        if one != other:
            break
        size += 1
    # Not inside a control text: `</s>` and `<|assistant|>` begin alike, too.
    opened = longer.rfind("<", 0, size)
    return longer[opened if opened > longer.rfind(">", 0, size) else size :]
