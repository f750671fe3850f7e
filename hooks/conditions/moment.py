"""What is known when a point fires: one input, the same for all policies that are asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from hooks.contracts.exchange import TerminalOutcome
from hooks.contracts.points import HookPoint
from hooks.contracts.signals import FirstTokenSignals, WindowSignals
from hooks.contracts.view import HookCaller, MediaPartView, MessageView, OutputText, RequestView
from hooks.matching import folded, reading_of


@dataclass(frozen=True, kw_only=True, repr=False)
class Moment:
    """`model` is the id that the request's name was resolved to, `request` the request as of this point.
    Texts are put together when they are first asked for, and then kept."""

    point: HookPoint
    caller: HookCaller
    model: str
    request: RequestView
    choice: int | None = None
    first_token: FirstTokenSignals | None = None
    window: WindowSignals | None = None
    output: OutputText | None = None
    outcome: TerminalOutcome | None = None

    def __repr__(self) -> str:
        return f"<Moment {self.point.value}>"

    @cached_property
    def input_text(self) -> str:
        """All that a model would read of it: turns, thinking, arguments of calls, and prompts, in lines."""
        return "\n".join(self._input_texts())

    @cached_property
    def user_text(self) -> str:
        """What users wrote, prompts included."""
        prompts = [prompt for prompt in self.request.prompts if prompt is not None]
        return "\n".join([*self._texts_of("user"), *prompts])

    @cached_property
    def last_user_text(self) -> str:
        """The last turn of a user; of completions the last prompt."""
        prompts = [prompt for prompt in self.request.prompts if prompt is not None]
        return (self._texts_of("user") or prompts or [""])[-1]

    @cached_property
    def system_text(self) -> str:
        return "\n".join(self._texts_of("system", "developer"))

    @cached_property
    def folded_input(self) -> str:
        return folded(self.input_text)

    @cached_property
    def folded_user(self) -> str:
        return folded(self.user_text)

    @cached_property
    def folded_last_user(self) -> str:
        return folded(self.last_user_text)

    @cached_property
    def arguments_text(self) -> str:
        """All calls' arguments in lines; those with escapes once more, as they were written."""
        if self.output is None:
            return ""
        return "\n".join([*self.output.arguments.values(), *self.output.raw_arguments.values()])

    @cached_property
    def folded_output(self) -> str:
        """Content, thinking, names and arguments of calls in lines; of JSON within arguments what is escaped
        in it is read, too."""
        output = self.output
        if output is None:
            return ""
        arguments = list(output.arguments.values())
        inner = [reading_of(text, is_json=True).text for text in arguments if "\\" in text]
        names = output.tool_names.values()
        return folded("\n".join([output.content, output.reasoning, *names, *arguments, *inner]))

    @cached_property
    def num_media(self) -> int:
        parts = [part for message in self.request.messages for part in message.parts]
        return sum(isinstance(part, MediaPartView) for part in parts)

    def _texts_of(self, *roles: str) -> list[str]:
        return [message.text for message in self.request.messages if message.role in roles]

    def _input_texts(self) -> Iterator[str]:
        for message in self.request.messages:
            yield from _texts(message)
        for prompt in self.request.prompts:
            if prompt is not None:
                yield prompt


def _texts(message: MessageView) -> Iterator[str]:
    if message.name:
        yield message.name
    if message.reasoning:
        yield message.reasoning
    yield message.text
    for arguments in message.tool_arguments:
        yield reading_of(arguments, is_json=True).text
