"""What is known when a point fires: one input, the same for all policies that are asked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from hooks.conditions.request_texts import RequestTexts, folded_within_bounds
from hooks.contracts.exchange import TerminalOutcome
from hooks.contracts.points import HookPoint
from hooks.contracts.signals import FirstTokenSignals, WindowSignals
from hooks.contracts.view import HookCaller, OutputText, RequestView


@dataclass(frozen=True, kw_only=True, repr=False)
class Moment:
    """`model` is the id that the request's name was resolved to, `texts` are those of the request as of this
    point. What is put together of the output is, when it is first asked for."""

    point: HookPoint
    caller: HookCaller
    model: str
    texts: RequestTexts
    choice: int | None = None
    first_token: FirstTokenSignals | None = None
    window: WindowSignals | None = None
    output: OutputText | None = None
    outcome: TerminalOutcome | None = None

    def __repr__(self) -> str:
        return f"<Moment {self.point.value}>"

    @property
    def request(self) -> RequestView:
        return self.texts.request

    @cached_property
    def arguments_text(self) -> str:
        """All calls' arguments in lines; those with escapes once more, as they were written."""
        if self.output is None:
            return ""
        return "\n".join([*self.output.arguments.values(), *self.output.raw_arguments.values()])

    @cached_property
    def folded_output(self) -> str:
        """Content, thinking, names and arguments of calls in lines; what is escaped in them is read, too."""
        output = self.output
        if output is None:
            return ""
        names, arguments = output.tool_names.values(), output.arguments.values()
        return folded_within_bounds("\n".join([output.content, output.reasoning, *names, *arguments]))

    @cached_property
    def num_items(self) -> int:
        """How many members lists and maps have that a client fills."""
        request = self.request
        sized = (request.fields, request.parameters, request.metadata, request.tool_names)
        return sum(map(len, sized))

    @cached_property
    def num_chars(self) -> int:
        """How much text there is to be read, about."""
        if self.outcome is not None:
            return self.texts.num_chars + sum(map(len, self.outcome.texts))
        output = self.output
        if output is None:
            return self.texts.num_chars
        num_out = len(output.content) + len(output.reasoning) + sum(map(len, output.arguments.values()))
        return self.texts.num_chars + num_out
