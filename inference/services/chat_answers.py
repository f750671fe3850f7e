"""How the answer to one chat is written, read and held to: by the model, the reader and the engine.

Which family's marks the model writes follows from the template that made its prompt, or from the convention
for templates that know no tools. From that follow the reader and the constraint.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from inference.domain.chat_prompt import ChatPrompt
from inference.domain.constraint import ConstraintSpec, OutputConstraint, Tag, TaggedText
from inference.domain.tools import ToolMode, ToolUse
from inference.openai.protocol import ChatRequest, SamplingRequest
from inference.openai.sampling_fields import MAX_LOGIT_BIAS
from inference.parsing.answer_reader import AnswerReader
from inference.parsing.formats.emulated import EmulatedFormat
from inference.parsing.formats.message_format import MessageFormat
from inference.parsing.formats.registry import format_of
from inference.parsing.thinking_constraint import ThinkingConstraint, thinking_rules
from inference.parsing.visible_pieces import visible_pieces
from inference.services.model_catalog import ServedModel


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """Of one request. `specs` are the constraints that would do, the strictest first: tools that are not
    `strict` may have schemas that nobody can enforce. None of them: the answer is free."""

    request: ChatRequest
    format: MessageFormat
    thinks: bool
    """The template's models think."""
    is_thinking_open: bool
    specs: tuple[ConstraintSpec, ...]
    param: str
    """The field that a refusal names."""

    def reader(self, model: ServedModel) -> AnswerReader:
        request, form = self.request, self.format
        parser = pieces = None
        if self._is_parsed:
            pieces = visible_pieces(model.tokenizer, tuple(form.preserved_texts))
            parser = form.parser(request.tool_use, request.reasoning, is_thinking_open=self.is_thinking_open)
        return AnswerReader(
            model.tokenizer,
            stops=request.stop or (),
            tracks_tokens=request.num_top_logprobs is not None,
            parser=parser,
            is_parser_early=not request.tool_use.is_parallel,
            pieces=pieces,
            is_reasoning_shown=request.reasoning.is_shown,
            min_tokens=request.min_tokens,
        )

    def sampling(self, model: ServedModel) -> SamplingRequest:
        """As it was asked for; where tools are shown and may not be called, without the tokens that calls
        begin with. (Marks that are text stay possible, and are text.)"""
        tools, sampling = self.request.tool_use, self.request.sampling
        if not tools.tools or tools.callable_tools:
            return sampling
        marks = [
            model.tokenizer.tokenize(marker, add_special=False, parse_special=True)
            for marker in self.format.call_markers
        ]
        banned = dict.fromkeys([mark[0] for mark in marks if len(mark) == 1], -MAX_LOGIT_BIAS)
        return replace(sampling, logit_bias=tuple({**dict(sampling.logit_bias or ()), **banned}.items()))

    @property
    def _is_parsed(self) -> bool:
        if self.request.wants_raw_text:
            return False
        is_thinking_read = self.format.thinking is not None and self.request.reasoning.is_parsed
        return bool(self.request.tool_use.callable_tools) or is_thinking_read or self.format.is_always_marked

    def constraint(self, model: ServedModel, compiled: OutputConstraint | None) -> OutputConstraint | None:
        """`compiled` (of one of `specs`) as it holds for the whole answer, with thinking before it. Not for
        the event loop."""
        form, asked = self.format, self.request.reasoning
        thinking = form.thinking
        may_think = self.is_thinking_open or (self.thinks and asked.is_enabled is not False)
        if thinking is None or not may_think or (compiled is None and asked.max_tokens is None):
            return compiled
        calls = () if compiled is None or form.is_thinking_constrained else tuple(form.call_markers)
        rules = thinking_rules(model.tokenizer, thinking, tuple(form.preserved_texts), calls)
        is_by_itself = not self.is_thinking_open and not form.is_thinking_constrained
        if compiled is not None and is_by_itself and len(rules.begin) != 1:
            # Models that begin to think by themselves have a token for it. Others would be let go astray.
            return compiled
        return ThinkingConstraint(
            rules,
            compiled,
            is_open=self.is_thinking_open,
            max_tokens=asked.max_tokens,
            is_answer_throughout=form.is_thinking_constrained,
        )


def chat_answer(request: ChatRequest, prompt: ChatPrompt) -> ChatAnswer:
    own = format_of(prompt.template_source)
    form = EmulatedFormat(own.thinking) if prompt.is_emulated else own
    tools = request.tool_use
    asked = request.constraint
    specs: list[ConstraintSpec] = []
    if not tools.callable_tools or request.wants_raw_text:
        specs = [] if asked is None else [form.answer(asked)]
    else:
        for use in (tools, _relaxed(tools)):
            spec = _with_calls(form, use, asked)
            if spec is not None and spec not in specs:
                specs.append(spec)
    param = request.constraint_param if asked is not None and not tools.is_enforced else "tools"
    return ChatAnswer(
        request,
        form,
        thinks=own.thinking is not None,
        is_thinking_open=form.is_thinking_open(prompt.answer_begin),
        specs=tuple(specs),
        param=param,
    )


def _with_calls(form: MessageFormat, tools: ToolUse, asked: ConstraintSpec | None) -> ConstraintSpec | None:
    """Calls, or where they need not be, an answer as it was asked for."""
    if asked is None or tools.is_enforced:
        return form.constraint(tools)
    calls = form.constraint(replace(tools, mode=ToolMode.REQUIRED))
    tags = [Tag("", spec) for spec in (form.answer(asked), calls) if spec is not None]
    return TaggedText(
        tags=tuple(tags), triggers=(), has_free_text=False, has_later_text=False, min_tags=1, max_tags=1
    )


def _relaxed(tools: ToolUse) -> ToolUse:
    """The same functions, with any arguments for those that are not strict."""
    return replace(
        tools,
        tools=tuple(
            [tool if tool.is_strict else replace(tool, parameters={"type": "object"}) for tool in tools.tools]
        ),
    )
