"""Runs a chat template as what it is: a program from a file that somebody downloaded.

Jinja's sandbox keeps templates from Python's objects, but not from the machine's time and memory:
`'a' * 10**10`, two nested ranges, a string that doubles itself, or a number format with a
nine-digit width stop a server as surely. Here every turn of a loop and every macro counts against
a budget of processor time, whatever can make a large value is bounded before it makes it, and what
no chat template needs is not there.

In-process bounds are not a jail: they hold against what the language can express, not against bugs
of the interpreter. Templates come from model files that an administrator chose, and from requests only
where an administrator allows it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from inference.prompting.render_budget import RenderBudget
from inference.prompting.template_filters import LEFT_OUT, BoundedFilters

_MAX_INTEGER_BITS = 4096
_TEXT_METHODS_LEFT_OUT = frozenset(("center", "expandtabs", "ljust", "rjust", "translate", "zfill"))
# A width of three digits, or one that comes from elsewhere: for the % operator, and for str.format.
_WIDE_PERCENT_FORMAT = re.compile(r"%[^A-Za-z%]*(?:\d{3}|\*)")
_WIDE_BRACE_FORMAT = re.compile(r"\{[^{}]*:[^{}]*(?:\d{3}|\{)")


class GenerationTag(Extension):
    """`{% generation %}…{% endgeneration %}` marks, for training, what the model says. Here it only
    has to be understood."""

    tags = {"generation"}  # noqa: RUF012  (Jinja's own declaration)

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """Jinja as Hugging Face sets it up for chat templates (trim_blocks, lstrip_blocks, loop controls,
    its `tojson`), with bounds. Shared by threads; each rendering is on one of them.

    Sources must come in through `compile_bounded`; call `budget.start` before each rendering.
    """

    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(self, budget: RenderBudget) -> None:
        self.budget = budget
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,
            finalize=self.budget.text_of,
            extensions=[GenerationTag, "jinja2.ext.loopcontrols"],
        )
        for name in LEFT_OUT:
            del self.filters[name]
        self.filters.update(BoundedFilters(self, self.budget).replacements())
        del self.globals["lipsum"]

    def compile_bounded(self, tree: nodes.Template) -> Any:
        """Code of a parsed template, with our checks in its loops and joints. Changes `tree`."""
        return self.compile(_CheckInserter().visit(tree))

    # What the inserted checks call.

    def tick(self, num_chars: int) -> None:
        """One more turn of a loop, or entry of a macro, with `num_chars` of literal text in it."""
        self.budget.charge(num_chars)
        self.budget.check_time()

    def concat_bounded(self, *values: object) -> str:
        """`a ~ b ~ c`."""
        return self.budget.join("", values)

    # What Jinja calls.

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "*":
            self._check_product(left, right)
        elif operator == "**":
            if isinstance(left, int) and isinstance(right, int):
                _check_bits(left.bit_length() * max(0, right))
        elif operator == "+" and hasattr(left, "__len__") and hasattr(right, "__len__"):
            self.budget.check_size(len(left) + len(right))
        elif operator == "%" and isinstance(left, str):
            if _WIDE_PERCENT_FORMAT.search(left):
                raise SecurityError("wide formats are not allowed")
            self.budget.check_unfolded(right if isinstance(right, list | tuple | dict) else [right])
            self.budget.check_size(len(left))
        return super().call_binop(context, operator, left, right)

    def _check_product(self, left: Any, right: Any) -> None:
        if isinstance(left, int) and isinstance(right, int):
            _check_bits(left.bit_length() + right.bit_length())
        elif isinstance(left, int) and hasattr(right, "__len__"):
            self.budget.check_size(max(0, left) * len(right))
        elif isinstance(right, int) and hasattr(left, "__len__"):
            self.budget.check_size(max(0, right) * len(left))

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if isinstance(obj, str) and attr in _TEXT_METHODS_LEFT_OUT:
            return False
        if isinstance(obj, int | float | bytes):  # (5).to_bytes(10**9) and the like
            return False
        return super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """What a template gets for `text.format`: Jinja's own guard, and ours around it."""
        guarded = super().wrap_str_format(value)
        if guarded is None:
            return None

        def bounded(*args: Any, **kwargs: Any) -> str:
            if _WIDE_BRACE_FORMAT.search(value.__self__):
                raise SecurityError("wide formats are not allowed")
            self.budget.check_unfolded([args, kwargs])
            return self.budget.text_of(guarded(*args, **kwargs))

        return bounded

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        # The underscores are Jinja's: `kwargs` may hold any name.
        owner, budget = getattr(__obj, "__self__", None), __self.budget
        if isinstance(owner, str):
            name = getattr(__obj, "__name__", "")
            if name == "join" and args:
                return budget.join(owner, args[0])
            if name == "replace" and len(args) >= 2:
                budget.check_replacement(owner, args[0], args[1])
        result = super().call(__context, __obj, *args, **kwargs)
        if isinstance(result, str | list | tuple):
            budget.check_size(len(result))
        return result


class _CheckInserter(NodeTransformer):
    """Puts a `tick` at the head of every body that may run many times, and makes `~` ours."""

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _environment_call("concat_bounded", node.nodes, node.lineno)

    def _visit_body(self, node: Any) -> nodes.Node:
        num_chars = sum(len(data.data) for data in node.find_all(nodes.TemplateData))
        self.generic_visit(node)
        statement = nodes.ExprStmt(_environment_call("tick", [nodes.Const(num_chars)], node.lineno))
        statement.set_lineno(node.lineno)
        node.body.insert(0, statement)
        return node  # type: ignore[no-any-return]

    visit_For = visit_Macro = visit_CallBlock = visit_Block = _visit_body


def _environment_call(name: str, arguments: list[nodes.Expr], lineno: int) -> nodes.Call:
    call = nodes.Call(nodes.EnvironmentAttribute(name), arguments, [], None, None)
    call.set_lineno(lineno, override=True)
    return call


def _check_bits(num_bits: int) -> None:
    if num_bits > _MAX_INTEGER_BITS:
        raise SecurityError("numbers of this size are not allowed")
