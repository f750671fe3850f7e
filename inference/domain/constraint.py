"""What an answer may look like: said by the wire and the tool formats, obeyed by the engine.

A `ConstraintSpec` is data, from a request. It is compiled once (slow, may be refused, off the event
loop) to an `OutputConstraint`, which the engine begins anew for each sequence. Nothing here fails
open: what cannot be kept is refused at compilation, or fails the sequence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class AnyJson:
    """`json_object`: one JSON object, of any shape."""


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """One JSON value that fits the schema. `schema` is the caller's, or a tool's."""

    schema: Mapping[str, Any] | bool


@dataclass(frozen=True, slots=True)
class Regex:
    """The whole answer matches `pattern`."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Choice:
    """The answer is one of these, to the letter."""

    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Grammar:
    """The answer follows a grammar in Lark's notation, as llguidance reads it; or in GBNF. `is_trusted`:
    an administrator wrote it."""

    text: str
    is_gbnf: bool = False
    is_trusted: bool = False


@dataclass(frozen=True, slots=True)
class Tag:
    """A part of an answer between fixed texts: `begin`, then what `body` says, then `end`.

    `begin` starts with the trigger that ends free text. Control tokens in `begin`, `end` and the trigger
    are meant by their text (`<tool_call>`): the compiler finds out which texts are tokens.
    """

    begin: str
    body: ConstraintSpec
    end: str = ""


@dataclass(frozen=True, slots=True)
class TaggedText:
    """Text in which a trigger opens a tag and nothing else, up to the model's end.

    The `begin` of each tag starts with one of `triggers`. `has_free_text` allows text before the first
    tag, and with `has_later_text` also between and behind tags, but not behind the last of `max_tags`;
    without free text the answer is made of tags alone. At least `min_tags` and at most `max_tags` (None:
    any number) tags, which stand behind each other with `separator` between them where no free text
    does. `prefix` and `suffix` frame all of the tags together; they are for answers without free text.
    """

    tags: tuple[Tag, ...]
    triggers: tuple[str, ...]
    has_free_text: bool = True
    has_later_text: bool = True
    min_tags: int = 0
    max_tags: int | None = None
    separator: str = ""
    prefix: str = ""
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class InOrder:
    """One part behind the other; none of them: nothing. A part that may be missing is a TaggedText without
    free text and with `min_tags` 0."""

    parts: tuple[ConstraintSpec, ...]


ConstraintSpec = AnyJson | JsonSchema | Regex | Choice | Grammar | TaggedText | InOrder


class ConstraintRefused(ValueError):
    """This constraint cannot be kept, or would cost too much. Its text is for the caller's eyes."""


class ConstraintState(Protocol):
    """How far one sequence has come. Used by one thread at a time, the engine's.

    `accepts` is the cheap question for a token that was drawn freely; only where the answer is no,
    `mask` is computed. A state that is complete allows the model's end; one that `is_ended` allows
    nothing else. Whatever is raised here fails the sequence, and only it.
    """

    @property
    def is_ended(self) -> bool: ...

    def accepts(self, token_id: int) -> bool:
        """Whether the token may come now, an end-of-generation token included. Changes nothing."""
        ...

    def mask(self) -> Any:
        """Which tokens may come now: a numpy array of bool, one for each of the vocabulary."""
        ...

    def advance(self, token_id: int) -> None:
        """The token was taken; it must be one that may come."""
        ...

    def forced_tokens(self, max_tokens: int) -> Sequence[int]:
        """The next tokens where there is only one way to go on; empty where there is a choice."""
        ...


class OutputConstraint(Protocol):
    """A compiled constraint: immutable, usable from any thread, shared between sequences."""

    def begin(self) -> ConstraintState: ...


class ConstraintCompiler(Protocol):
    """Makes constraints for one model's vocabulary. Thread-safe."""

    def compile(self, spec: ConstraintSpec) -> OutputConstraint:
        """Milliseconds for what people write, seconds for the worst that is let through: never on the
        event loop. What was compiled lately is found again. Raises ConstraintRefused."""
        ...
