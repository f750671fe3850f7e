from __future__ import annotations

from itertools import pairwise

import pytest

from inference.domain.reasoning import EFFORTS, ReasoningFormat, ReasoningOptions
from inference.openai.reasoning_fields import SWITCHES
from tests.unit.openai.bodies import chat, chat_refusal

# Weakest first: each says on or off, and wins over all before it.
LADDER: list[tuple[str, object, object]] = [
    ("reasoning", {"effort": "high"}, {"enabled": False}),
    ("reasoning_effort", "low", "none"),
    *[(name, True, False) for name in SWITCHES],
    ("thinking_budget", None, 0),
    *[(f"chat_template_kwargs.{name}", True, False) for name in SWITCHES],
]


def fields(*said: tuple[str, object]) -> dict[str, object]:
    body: dict[str, object] = {}
    for name, value in said:
        outer, _, inner = name.partition(".")
        if inner:
            kwargs = body.setdefault(outer, {})
            assert isinstance(kwargs, dict)
            kwargs[inner] = value
        else:
            body[name] = value
    return body


def is_enabled(**body: object) -> bool | None:
    return chat(**body).reasoning.is_enabled


@pytest.mark.parametrize(("name", "on", "off"), LADDER)
def test_each_name_alone_turns_thinking_on_and_off(name: str, on: object, off: object) -> None:
    assert is_enabled(**fields((name, off))) is False
    if on is not None:
        assert is_enabled(**fields((name, on))) is True


@pytest.mark.parametrize(("weaker", "stronger"), list(pairwise(LADDER)))
def test_the_stronger_of_two_neighbours_wins(
    weaker: tuple[str, object, object], stronger: tuple[str, object, object]
) -> None:
    if weaker[1] is not None:
        assert is_enabled(**fields((weaker[0], weaker[1]), (stronger[0], stronger[2]))) is False
    if stronger[1] is not None:
        assert is_enabled(**fields((weaker[0], weaker[2]), (stronger[0], stronger[1]))) is True


def test_the_strongest_wins_over_all() -> None:
    rungs = [rung for rung in LADDER if rung[1] is not None]
    *others, last = rungs
    assert is_enabled(**fields(*[(name, off) for name, _, off in others], (last[0], last[1]))) is True
    assert is_enabled(**fields(*[(name, on) for name, on, _ in others], (last[0], last[2]))) is False


@pytest.mark.parametrize(
    ("reasoning", "expected"),
    [
        ({}, None),
        ({"enabled": True}, True),
        ({"enabled": False}, False),
        ({"effort": "none"}, False),
        ({"effort": "minimal"}, True),
        ({"max_tokens": 0}, False),
        ({"max_tokens": 100}, True),
        ({"max_tokens": -1}, True),
        ({"enabled": True, "effort": "none"}, False),
        ({"enabled": False, "effort": "high"}, False),
        ({"enabled": True, "max_tokens": 0}, False),
        ({"effort": "high", "max_tokens": 0}, False),
        ({"summary": "auto"}, None),
        ({"enabled": None, "effort": None}, None),
    ],
)
def test_the_reasoning_object(reasoning: dict[str, object], expected: bool | None) -> None:
    request = chat(reasoning=reasoning)
    assert request.reasoning.is_enabled is expected
    assert request.ignored_parameters == ()


def test_nobody_says_anything() -> None:
    assert chat().reasoning == ReasoningOptions()
    assert ReasoningOptions().template_variables == {}


@pytest.mark.parametrize("effort", EFFORTS)
def test_efforts(effort: str) -> None:
    options = chat(reasoning_effort=effort).reasoning
    assert options.effort == effort
    assert options.is_enabled is (effort != "none")
    assert options.template_variables["reasoning_effort"] == effort
    assert chat(reasoning={"effort": effort}).reasoning == options
    assert chat(reasoning={"effort": "low"}, reasoning_effort=effort).reasoning.effort == effort


@pytest.mark.parametrize("name", ["thinking_budget", "reasoning_budget", "thinking_budget_tokens"])
def test_budgets(name: str) -> None:
    options = chat(**{name: 512}).reasoning
    assert (options.max_tokens, options.is_enabled) == (512, None)
    assert options.template_variables == {"thinking_budget": 512, "reasoning_budget": 512}
    assert chat(**{name: 0}).reasoning.is_enabled is False
    assert chat(**{name: -1}).reasoning.max_tokens is None
    assert chat(reasoning={"max_tokens": 7}, **{name: 9}).reasoning.max_tokens == 9
    for wrong in (-2, 2**31, 1.5, "9", True):
        assert chat_refusal(**{name: wrong}).param == name


@pytest.mark.parametrize("format", ReasoningFormat)
def test_formats(format: ReasoningFormat) -> None:
    options = chat(reasoning_format=format.value).reasoning
    assert options.format is format
    assert options.is_parsed is (format is not ReasoningFormat.NONE)
    assert options.is_shown is (format.value not in ("none", "hidden"))


def test_excluded_thinking_is_hidden_unless_a_format_says_more() -> None:
    assert chat(reasoning={"exclude": True}).reasoning.format is ReasoningFormat.HIDDEN
    assert chat(reasoning={"exclude": False}).reasoning.format is None
    both = chat(reasoning={"exclude": True}, reasoning_format="auto")
    assert both.reasoning.format is ReasoningFormat.AUTO


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"reasoning_format": "xml"}, "reasoning_format"),
        ({"reasoning_format": 5}, "reasoning_format"),
        ({"reasoning_effort": "extreme"}, "reasoning_effort"),
        ({"reasoning_effort": 3}, "reasoning_effort"),
        ({"reasoning": True}, "reasoning"),
        ({"reasoning": {"enabled": "yes"}}, "reasoning.enabled"),
        ({"reasoning": {"effort": "extreme"}}, "reasoning.effort"),
        ({"reasoning": {"max_tokens": "9"}}, "reasoning.max_tokens"),
        ({"reasoning": {"exclude": 1}}, "reasoning.exclude"),
        *[({name: "true"}, name) for name in SWITCHES],
        *[({"chat_template_kwargs": {name: 1}}, f"chat_template_kwargs.{name}") for name in SWITCHES],
    ],
)
def test_the_wrong_kind_of_value_is_named(body: dict[str, object], param: str) -> None:
    assert chat_refusal(**body).param == param


def test_unknown_parts_of_the_reasoning_object_are_listed() -> None:
    assert chat(reasoning={"depth": 3}).ignored_parameters == ("reasoning.depth",)
