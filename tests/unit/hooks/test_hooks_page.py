"""docs/hooks.md says what is so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hooks.action_form import actions_read
from hooks.action_form.forms import ACTION_FORMS
from hooks.conditions import VARIABLES, condition_check
from hooks.contracts.actions import ACTIONS_AT, CallWebhook, Tag
from hooks.contracts.points import HookPoint
from hooks.exchange.decision_log import action_name

PAGE = (Path(__file__).parents[3] / "docs" / "hooks.md").read_text()


@pytest.mark.parametrize("variable", VARIABLES, ids=lambda variable: variable.name)
def test_each_variable_stands_on_the_page_as_it_is(variable):
    everywhere = len(variable.points) == len(HookPoint)
    points = [f"`{point.value}`" for point in HookPoint if point in variable.points]
    where = "" if everywhere else ", ".join(points)

    assert f"| `{variable.name}` | {variable.cel_type} | {variable.meaning} | {where} |" in PAGE


@pytest.mark.parametrize("point", list(HookPoint))
def test_each_point_stands_on_the_page_with_its_actions(point):
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{point.value}` |")]
    said = {name.strip(" `") for name in row.split("|")[3].split(",")} - {""}
    kinds = ACTIONS_AT[point] - {Tag, CallWebhook}

    # An action's name is its class's.
    assert said == {action_name(object.__new__(kind)) for kind in kinds}


def test_the_conditions_on_the_page_can_be_saved():
    blocks = PAGE.split("```")[1::2]
    (block,) = [one for one in blocks if one.startswith("\n") and "has_word(text." in one]
    before, parameters, signals = block.strip().splitlines()

    assert condition_check(before, HookPoint.BEFORE) == ()
    assert condition_check(parameters, HookPoint.BEFORE) == ()
    assert condition_check(signals, HookPoint.AFTER_PREFILL) == ()


def test_the_policy_on_the_page_can_be_saved():
    (block,) = [block.removeprefix("json") for block in PAGE.split("```")[1::2] if block.startswith("json")]
    policy = json.loads(block)
    point = HookPoint(policy["point"])

    assert condition_check(policy["condition"], point) == ()
    assert len(actions_read(policy["actions"], point=point)) == 2


@pytest.mark.parametrize("form", ACTION_FORMS, ids=lambda form: form.kind)
def test_each_action_stands_on_the_page_with_its_fields(form):
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{form.kind}` |")]

    for one in form.fields:
        assert f"`{one.name}`{'' if one.is_required else '?'}" in row
