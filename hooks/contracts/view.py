"""What of a request a policy sees, whatever wire it came on, and what it may change.

A view is replaced, never changed. What a policy did is carried back to the request itself by comparing the
view with the one it was made of: messages and parameters that are the same objects were not touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

ParameterValue = bool | int | float | str | None


class MediaSort(StrEnum):
    """What a part of a message is, if it is no text."""

    IMAGE = "image"
    AUDIO = "audio"
    VIDEO = "video"


@dataclass(frozen=True, slots=True)
class TextPart:
    text: str


@dataclass(frozen=True, slots=True, repr=False)
class MediaPartView:
    """A picture or a sound. `url` is its address, or `data:` and its digest where its bytes came with it:
    policies see which one it is and never its bytes. `place` names it to whoever made the view."""

    sort: MediaSort
    url: str
    place: int

    def __repr__(self) -> str:
        return f"<MediaPartView {self.sort.value}>"


PartView = TextPart | MediaPartView


@dataclass(frozen=True, slots=True, repr=False)
class MessageView:
    """One turn. `role` is system, developer, user, assistant or tool. `is_text` tells content that is one
    string from a list of parts; no parts are no content. `place` is its index in the request that the view
    was made of, None for a message that a policy added."""

    role: str
    parts: tuple[PartView, ...]
    is_text: bool = True
    name: str | None = None
    reasoning: str | None = None
    tool_arguments: tuple[str, ...] = ()
    place: int | None = None

    @property
    def text(self) -> str:
        """All of its text, parts one behind the other."""
        return "".join([part.text for part in self.parts if isinstance(part, TextPart)])

    @property
    def num_chars(self) -> int:
        """All that is read of it: its text, its thinking, the arguments of its calls."""
        num_text = sum([len(part.text) for part in self.parts if isinstance(part, TextPart)])
        return (
            num_text + len(self.name or "") + len(self.reasoning or "") + sum(map(len, self.tool_arguments))
        )

    def __repr__(self) -> str:
        return f"<MessageView {self.role}, {len(self.parts)} parts>"


@dataclass(frozen=True, slots=True, repr=False)
class RequestView:
    """`endpoint` is chat.completions, completions, responses or messages. Completions have `prompts` (None
    for one given as tokens, whose text is in `token_texts`, in their order, where the model's vocabulary was
    at hand) and no messages. `parameters` are numbers, words and flags of the body by their
    wire names (max_tokens, temperature, top_p, n, stream, ...), only those that were sent or that a policy
    set. `tool_names` are the functions offered, `fields` the names of everything the body has.
    `beside_texts` is what is told beside turns and can be masked like them: descriptions of functions and of
    their parameters, documents. `other_texts` is what else a model may come to read or has to write (names
    and values of parameters, a template of the caller's, what stands behind the answer, the form that an
    answer has to have): it can be looked at and not changed, and neither can `token_texts`."""

    endpoint: str
    model: str
    messages: tuple[MessageView, ...] = ()
    prompts: tuple[str | None, ...] = ()
    token_texts: tuple[str, ...] = ()
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)
    tool_names: tuple[str, ...] = ()
    beside_texts: tuple[str, ...] = ()
    other_texts: tuple[str, ...] = ()
    fields: frozenset[str] = frozenset()
    metadata: Mapping[str, str] = field(default_factory=dict)
    end_user: str = ""
    is_stream: bool = False
    opts_in: bool = False
    """Asks for the optional policies too: `skippy_hooks` or `mesh_hooks` is true."""

    @property
    def num_chars(self) -> int:
        """Of turns, prompts and what stands beside them, which policies may change."""
        num_prompts = sum([len(prompt) for prompt in self.prompts if prompt is not None])
        num_beside = sum(map(len, self.beside_texts))
        return num_prompts + num_beside + sum([message.num_chars for message in self.messages])

    @property
    def prompt_texts(self) -> list[str]:
        """Prompts as text, those that came as tokens among them."""
        of_tokens = iter(self.token_texts)
        texts = [next(of_tokens, None) if prompt is None else prompt for prompt in self.prompts]
        return [text for text in texts if text is not None]

    @property
    def has_unseen_prompts(self) -> bool:
        """Some came as tokens, and nobody knows what they say."""
        return self.prompts.count(None) > len(self.token_texts)

    @property
    def fixed_texts(self) -> tuple[str, ...]:
        """What can be looked at and not changed."""
        return (*self.token_texts, *self.other_texts)

    def __repr__(self) -> str:
        # What somebody wrote is in no log.
        return f"<RequestView {self.endpoint}, {len(self.messages)} messages, {len(self.prompts)} prompts>"


@dataclass(frozen=True, slots=True)
class HookCaller:
    """Who asks, by ids (for the scope) and names (for conditions). A user may be in no team."""

    user_id: int
    username: str
    key_id: int
    key_name: str
    team_id: int | None = None
    team_name: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class OutputText:
    """Text of one choice that is about to be released: for a whole answer all of it, for a stream what is
    held back. In a stream each text begins with the last of what is out already, so that a word is seen that
    began there; that much cannot be changed any more.

    `arguments` are those of tool calls by their index in the choice, as JSON text in which the escapes of
    strings are resolved, so that a word is the same word however it was written; changes are of these.
    `raw_arguments` are those which had any, as they were written. `tool_names` are the functions of the
    calls that begin here. `num_released_chars` of content went out before. `is_last`: nothing follows."""

    choice: int
    content: str = ""
    reasoning: str = ""
    arguments: Mapping[int, str] = field(default_factory=dict)
    raw_arguments: Mapping[int, str] = field(default_factory=dict)
    tool_names: Mapping[int, str] = field(default_factory=dict)
    num_released_chars: int = 0
    is_last: bool = False

    def __repr__(self) -> str:
        return f"<OutputText of choice {self.choice}, {len(self.content)} characters>"
