from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from inference.domain.conversation import Conversation, TemplateOptions
from inference.domain.errors import InvalidRequest, UnsupportedParameter
from inference.domain.tools import ToolUse
from inference.prompting.chat_template import CHATML, ChatTemplate, UnusableTemplate
from inference.prompting.control_text import ControlTexts
from inference.prompting.template_library import MAX_KEPT_TEMPLATES, TemplateLibrary
from tests.chat_templates import CLOCK, HELLO

OTHER = "{% for m in messages %}[{{ m.content }}]{% endfor %}"
PLAIN = Conversation(messages=(HELLO,))
WITH_TOOLS = replace(PLAIN, tool_use=ToolUse((CLOCK,)))


class Shelf:
    """A library that counts what it compiles."""

    def __init__(self, allows_others: bool = False, **sources: str) -> None:
        self.compiled: list[str] = []
        self._lock = threading.Lock()
        self.library = TemplateLibrary(
            sources, compile=self._compile, controls=ControlTexts(["<s>"]), allows_others=allows_others
        )

    def _compile(self, source: str) -> ChatTemplate:
        with self._lock:
            self.compiled.append(source)
        return ChatTemplate(source, max_chars=100_000, max_cpu_s=0.5)

    def chosen(self, conversation: Conversation = PLAIN, asked: str | None = None) -> str:
        conversation = replace(conversation, template=TemplateOptions(source=asked))
        return self.library.choose(conversation).source

    def refusal(self, asked: str) -> InvalidRequest:
        with pytest.raises(InvalidRequest) as caught:
            self.chosen(asked=asked)
        return caught.value


def test_the_variant_for_tools_is_taken_where_there_are_some() -> None:
    shelf = Shelf(default=CHATML, tool_use=OTHER)
    assert shelf.chosen() == CHATML
    assert shelf.chosen(WITH_TOOLS) == OTHER
    assert Shelf(default=CHATML).chosen(WITH_TOOLS) == CHATML
    assert Shelf(tool_use=OTHER).chosen() == OTHER


def test_a_variant_can_be_asked_for_by_its_name() -> None:
    shelf = Shelf(default=CHATML, rag=OTHER)
    assert shelf.compiled == [CHATML]
    assert shelf.chosen(asked="rag") == OTHER
    assert shelf.chosen(WITH_TOOLS, asked="default") == CHATML
    assert shelf.compiled == [CHATML, OTHER]


def test_a_requests_own_template_needs_permission() -> None:
    error = Shelf(default=CHATML).refusal(OTHER)
    assert isinstance(error, UnsupportedParameter)
    assert error.param == "chat_template"
    assert Shelf(default=CHATML, allows_others=True).chosen(asked=OTHER) == OTHER
    assert Shelf(allows_others=True).chosen(asked=OTHER) == OTHER


def test_a_model_without_a_template_says_so() -> None:
    with pytest.raises(InvalidRequest) as caught:
        Shelf().chosen()
    assert caught.value.param == "messages"
    assert Shelf().library.is_empty


def test_a_requests_template_is_compiled_once_and_the_latest_are_kept() -> None:
    shelf = Shelf(default=CHATML, allows_others=True)
    sources = [f"{OTHER}{index}" for index in range(MAX_KEPT_TEMPLATES + 1)]
    for source in sources:
        assert shelf.chosen(asked=source) == shelf.chosen(asked=source) == source
    assert len(shelf.compiled) == len(sources) + 1
    shelf.chosen(asked=sources[-1])
    assert len(shelf.compiled) == len(sources) + 1
    shelf.chosen(asked=sources[0])
    assert len(shelf.compiled) == len(sources) + 2


def test_many_threads_at_once() -> None:
    shelf = Shelf(default=CHATML, allows_others=True)
    sources = [f"{OTHER}{index % 5}" for index in range(40)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda source: shelf.chosen(asked=source), sources)) == sources


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(10000) %}{% for j in range(10000) %}{% endfor %}{% endfor %}",
        "{{ ''.__class__.__mro__ }}",
        "{{ cycler.__init__.__globals__ }}",
        "{% if %}",
        "{% for m in messages %}",
        "{{ '" + "x" * 10 + "' * 10**9 }}",
        "{% for i in range(60000) %}{% endfor %}" * 40,
    ],
)
def test_a_bad_template_of_a_request_is_its_own_fault(source: str) -> None:
    error = Shelf(default=CHATML, allows_others=True).refusal(source)
    assert error.param == "chat_template"
    assert len(error.message) < 400


def test_a_bad_template_of_the_model_is_found_when_it_is_loaded() -> None:
    for name in ("default", "tool_use"):
        with pytest.raises(UnusableTemplate):
            Shelf(**{"default": CHATML, name: "{% if %}"})
    shelf = Shelf(default=CHATML, rag="{% if %}")
    assert shelf.refusal("rag").param == "chat_template"
