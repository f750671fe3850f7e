"""Messages to prompt text, by the template that the model was trained with.

The template is Jinja source from the model's file and expects what Hugging Face's `apply_chat_template`
provides: the same variables, filters, tags and white-space rules, else the prompt is subtly not the
one the model knows. It may be wrong, hostile, or just of another opinion ("roles must alternate"):
what it raises is the caller's 400, in its own words where it has some.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import NoReturn

from jinja2 import TemplateError, nodes
from jinja2.environment import Template
from jinja2.exceptions import SecurityError, TemplateRuntimeError
from jinja2.meta import find_undeclared_variables

from inference.domain.errors import ContextLengthExceeded, InvalidRequest
from inference.prompting.render_budget import MAX_RENDER_CPU_S, RenderBudget, TooMuchText
from inference.prompting.sandbox import BoundedEnvironment

MAX_SOURCE_CHARS = 1024 * 1024
_MAX_MESSAGE_CHARS = 500
_DATE_FORMAT = re.compile(r"(?:[^%]|%-?[A-Za-z%])*")

# The format of many models without a template of their own, and the one that llama.cpp falls back to.
CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
CHATML_CONTROL_TEXTS = frozenset(("<|im_start|>", "<|im_end|>"))

_FAILED = "The model's chat template could not render these messages"
# What templates compare with none, and do not ask whether it is defined.
_ABSENT: Mapping[str, object] = {"add_generation_prompt": True, "tools": None, "documents": None}


class UnusableTemplate(ValueError):
    """The template cannot be trusted or understood; known when the model is loaded."""


class _Objection(TemplateRuntimeError):
    """What the template itself raised by `raise_exception`."""


class ChatTemplate:
    """One compiled template; rendering is thread-safe."""

    def __init__(
        self,
        source: str,
        *,
        bos_text: str = "",
        eos_text: str = "",
        max_chars: int,
        max_cpu_s: float = MAX_RENDER_CPU_S,
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        """`max_chars` and `max_cpu_s` bound what a rendering may produce and take.

        Raises UnusableTemplate for a source that is too long, does not compile, or reaches for
        Python's internals.
        """
        if len(source) > MAX_SOURCE_CHARS:
            raise UnusableTemplate(f"the chat template is longer than {MAX_SOURCE_CHARS} characters")
        self._now = now
        self._environment = BoundedEnvironment(RenderBudget(max_chars=max_chars, max_cpu_s=max_cpu_s))
        self._fixed: dict[str, object] = {
            "bos_token": bos_text,
            "eos_token": eos_text,
            "raise_exception": _raise_exception,
            "strftime_now": self._strftime_now,
        }
        self.source = source
        self._template, self.literals, self._variables = self._compile(source)
        self._try_out()

    def render(
        self, messages: Sequence[Mapping[str, object]], variables: Mapping[str, object] | None = None
    ) -> str:
        """The prompt for `messages`, up to where the model's answer begins unless `variables` say
        otherwise (`add_generation_prompt`, `tools`, and whatever else a template looks at).

        Raises InvalidRequest with param "messages"; ContextLengthExceeded for more than `max_chars`.
        """
        try:
            return self._render(messages, variables or {})
        except TooMuchText:
            raise ContextLengthExceeded(
                f"The prompt would have more than {self._environment.budget.max_chars} characters, and this "
                "model's context holds fewer. Please shorten messages and tools.",
                param="messages",
            ) from None
        except _Objection as objection:
            reason = f"The model's chat template refuses these messages: {objection}"
        except (TemplateError, TypeError) as error:
            reason = f"{_FAILED}: {error}." if "0x" not in str(error) else f"{_FAILED}."
        except Exception:  # whatever a foreign program does wrong, it did on these messages
            reason = f"{_FAILED}."
        raise InvalidRequest(reason[:_MAX_MESSAGE_CHARS], param="messages")

    def _render(self, messages: Sequence[Mapping[str, object]], variables: Mapping[str, object]) -> str:
        environment, template = self._environment, self._template
        environment.budget.start()
        given = {**_ABSENT, **variables, **self._fixed, "messages": messages}
        context = template.new_context({**self._older_words(given), **given})
        pieces: list[str] = []
        num_chars = 0
        for piece in template.root_render_func(context):
            pieces.append(piece)
            num_chars += len(piece)
            if num_chars > environment.budget.max_chars:
                raise TooMuchText()
        return "".join(pieces)

    def _older_words(self, given: Mapping[str, object]) -> Mapping[str, object]:
        """What FireFunction's template asks for: tools as a text of JSON, and the day."""
        if "functions" not in self._variables or "tools" in self._variables:
            return {}
        tools = given["tools"]
        functions = [tool["function"] for tool in tools] if isinstance(tools, list) else []
        return {
            "functions": json.dumps(functions, ensure_ascii=False, indent=4) if functions else "",
            "datetime": self._now().strftime("%b %d %Y"),
        }

    def _compile(self, source: str) -> tuple[Template, frozenset[str], frozenset[str]]:
        environment = self._environment
        environment.budget.start()
        try:
            tree = environment.parse(source)
            _check_names(tree)
            literals = {data.data for data in tree.find_all(nodes.TemplateData)}
            literals.update(str(const.value) for const in tree.find_all(nodes.Const))
            variables = frozenset(find_undeclared_variables(tree))
            code = environment.compile_bounded(tree)
        except TemplateError as error:
            raise UnusableTemplate(f"the chat template does not compile: {error}") from error
        except RecursionError:
            raise UnusableTemplate("the chat template is nested too deeply") from None
        template = Template.from_code(environment, code, environment.make_globals(None))
        return template, frozenset(literals), variables

    def _try_out(self) -> None:
        """A template that breaks out, or never ends, on the simplest conversation is refused now."""
        try:
            self._render([{"role": "user", "content": "Hello"}], {})
        except SecurityError as error:
            raise UnusableTemplate(f"the chat template is not safe: {error}") from error
        except Exception:  # noqa: S110  (it may want other messages than these)
            pass

    def _strftime_now(self, format: str) -> str:
        if len(format) > 64 or not _DATE_FORMAT.fullmatch(format):
            raise SecurityError("a date format like this is not allowed")
        return self._now().strftime(format)


def _raise_exception(message: object) -> NoReturn:
    raise _Objection(str(message))


def _check_names(tree: nodes.Template) -> None:
    """No chat template has business with `__class__` and its kin, not even in a branch not taken."""
    names = [node.attr for node in tree.find_all(nodes.Getattr)]
    names += [str(node.value) for node in tree.find_all(nodes.Const)]
    for name in names:
        if name.startswith("__") and name.endswith("__"):
            raise UnusableTemplate("the chat template is not safe: it reaches for Python's internals")
