"""The templates of one model: those in its file, and those that requests bring along.

A file may have several: for tools, for retrieval. Compiling and trying one out takes a tenth of a
second, so each is made ready once; of the requests' own, the latest are kept.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from inference.domain.conversation import Conversation
from inference.domain.errors import InvalidRequest, UnsupportedParameter
from inference.prompting.answer_begins import AnswerBegins
from inference.prompting.chat_template import ChatTemplate, UnusableTemplate
from inference.prompting.control_text import ControlTexts
from inference.prompting.template_traits import TemplateTraits, template_traits

MAX_KEPT_TEMPLATES = 32
_DEFAULT, _TOOL_USE = "default", "tool_use"
_MAX_PROBLEM_CHARS = 300


@dataclass(frozen=True, slots=True)
class PreparedTemplate:
    """A template with all that is known of it. `controls` are the vocabulary's beside its own strings;
    `begins` comes to know how its prompts end."""

    template: ChatTemplate
    traits: TemplateTraits
    controls: ControlTexts
    begins: AnswerBegins = field(default_factory=AnswerBegins)

    @property
    def source(self) -> str:
        return self.template.source


class TemplateLibrary:
    """Thread-safe. `compile` makes a template of a source, or raises UnusableTemplate."""

    def __init__(
        self,
        sources: Mapping[str, str],
        *,
        compile: Callable[[str], ChatTemplate],
        controls: ControlTexts,
        allows_others: bool = False,
    ) -> None:
        """`sources` maps names to the model's own templates, of which "default" and "tool_use" are made
        ready at once. With `allows_others` requests may bring their own.

        Raises UnusableTemplate if one of those two is.
        """
        self._sources = dict(sources)
        if _DEFAULT not in self._sources and _TOOL_USE in self._sources:
            self._sources[_DEFAULT] = self._sources[_TOOL_USE]
        self._compile = compile
        self._controls = controls
        self._allows_others = allows_others
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, PreparedTemplate] = OrderedDict()
        self._own = {
            name: self._prepare(self._sources[name])
            for name in (_DEFAULT, _TOOL_USE)
            if name in self._sources
        }

    @property
    def is_empty(self) -> bool:
        """The model has no template of its own; requests may still bring theirs."""
        return not self._sources

    def choose(self, conversation: Conversation) -> PreparedTemplate:
        """The request's own template or the variant that it names; else the one for tools where there
        are some; else the main one. Raises InvalidRequest."""
        asked = conversation.template.source
        if asked is not None:
            return self._asked(asked)
        if conversation.tool_use.tools and _TOOL_USE in self._own:
            return self._own[_TOOL_USE]
        if _DEFAULT not in self._own:
            raise InvalidRequest(
                "This model has no chat template. Use /v1/completions with a prompt.", param="messages"
            )
        return self._own[_DEFAULT]

    def _asked(self, asked: str) -> PreparedTemplate:
        if asked in self._own:
            return self._own[asked]
        if asked not in self._sources and not self._allows_others:
            raise UnsupportedParameter(
                "'chat_template' is not allowed here: only the model's own templates are, by their names.",
                param="chat_template",
            )
        source = self._sources.get(asked, asked)
        with self._lock:
            found = self._kept.get(source)
            if found is not None:
                self._kept.move_to_end(source)
                return found
        try:
            prepared = self._prepare(source)
        except UnusableTemplate as problem:
            text = f"Invalid 'chat_template': {str(problem)[:_MAX_PROBLEM_CHARS]}."
            raise InvalidRequest(text, param="chat_template") from None
        with self._lock:
            self._kept[source] = prepared
            while len(self._kept) > MAX_KEPT_TEMPLATES:
                self._kept.popitem(last=False)
        return prepared

    def _prepare(self, source: str) -> PreparedTemplate:
        template = self._compile(source)
        return PreparedTemplate(template, template_traits(template), self._controls.beside(template.literals))
