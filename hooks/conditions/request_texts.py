"""The texts of one request, in the forms that conditions ask for: put together when they are first needed,
and kept as long as the request stays as it is, so that no point of a long generation does it again."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from hooks.contracts.view import MediaPartView, MessageView, RequestView
from hooks.matching import folded, unescaped, with_escapes_read

MAX_TEXT_BYTES = 1 << 20
# Folded text may have all of it twice (`with_escapes_read`).
MAX_FOLDED_BYTES = 2 * MAX_TEXT_BYTES + 1


class TextTooLarge(Exception):
    """Whoever needs it has to do without: so much text takes its time, each time."""


def folded_within_bounds(text: str) -> str:
    """With what is escaped in it, as JSON does, read too. Raises TextTooLarge for more than MAX_TEXT_BYTES
    characters, before anything is done with them."""
    if len(text) > MAX_TEXT_BYTES:
        raise TextTooLarge
    return folded(with_escapes_read(text))


class RequestTexts:
    """Of one view, which never changes."""

    def __init__(self, request: RequestView) -> None:
        self.request = request
        self.answers: dict[str, bool] = {}
        """What was looked for in these texts, by the search's key."""

    def __repr__(self) -> str:
        return f"<RequestTexts of {self.request!r}>"

    @cached_property
    def input_text(self) -> str:
        """All that a model may read of it: turns, thinking, arguments of calls, prompts, and the rest, in
        lines."""
        return "\n".join(self._input_texts())

    @cached_property
    def user_text(self) -> str:
        """What users wrote, prompts included."""
        return "\n".join([*self._texts_of("user"), *self.request.prompt_texts])

    @cached_property
    def last_user_text(self) -> str:
        """The last turn of a user; of completions the last prompt."""
        return (self._texts_of("user") or self.request.prompt_texts or [""])[-1]

    @cached_property
    def system_text(self) -> str:
        return "\n".join(self._texts_of("system", "developer"))

    @cached_property
    def folded_input(self) -> str:
        return folded_within_bounds(self.input_text)

    @cached_property
    def folded_system(self) -> str:
        return folded_within_bounds(self.system_text)

    @cached_property
    def folded_user(self) -> str:
        return folded_within_bounds(self.user_text)

    @cached_property
    def folded_last_user(self) -> str:
        return folded_within_bounds(self.last_user_text)

    @cached_property
    def num_chars(self) -> int:
        """How much text there is to be read, about."""
        return self.request.num_chars + sum(map(len, self.request.fixed_texts))

    @cached_property
    def num_media(self) -> int:
        parts = [part for message in self.request.messages for part in message.parts]
        return sum(isinstance(part, MediaPartView) for part in parts)

    def _texts_of(self, *roles: str) -> list[str]:
        return [message.text for message in self.request.messages if message.role in roles]

    def _input_texts(self) -> Iterator[str]:
        for message in self.request.messages:
            yield from _texts(message)
        yield from self.request.prompt_texts
        yield from self.request.beside_texts
        yield from self.request.other_texts


def _texts(message: MessageView) -> Iterator[str]:
    if message.name:
        yield message.name
    if message.reasoning:
        yield message.reasoning
    yield message.text
    for arguments in message.tool_arguments:
        yield unescaped(arguments)
