"""The commands that scripts use: JSON, and one sentence on failure."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from hooks.contracts.policies import PolicyMode
from hooks.examples import SHIPPED
from hooks.models import HookPolicy
from tests.integration.hooks.conftest import write_past

pytestmark = pytest.mark.django_db


def output_of(*arguments: str) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out, stderr=StringIO())
    return out.getvalue()


def problem_of(*arguments: str) -> str:
    with pytest.raises(CommandError) as problem:
        output_of(*arguments)
    assert "\n" not in str(problem.value)
    return str(problem.value)


def test_policies_are_listed_in_their_order(make) -> None:
    assert output_of("policy_list") == "No policies.\n"
    make("last", order=9)
    make("first", order=1, mode=PolicyMode.ENFORCE)

    shown = json.loads(output_of("policy_list", "--json"))
    assert [(one["name"], one["mode"]) for one in shown] == [("first", "enforce"), ("last", "off")]
    lines = output_of("policy_list").splitlines()
    assert lines[0].split() == ["id", "order", "mode", "point", "required", "name", "trouble"]
    assert "first" in lines[1] and "last" in lines[2]


def test_a_row_that_cannot_be_read_is_listed_with_its_trouble(make) -> None:
    make("odd")
    write_past("hooks_hookpolicy", """actions = '[{"type": "explode"}]'""")

    assert "actions[0].type" in output_of("policy_list")
    assert "actions[0].type" in problem_of("policy_mode", "odd", "enforce")


def test_a_policy_is_switched(make) -> None:
    make("p")
    assert "enforce" in output_of("policy_mode", "p", "enforce")
    assert json.loads(output_of("policy_mode", "p", "observe", "--json"))["mode"] == "observe"
    assert "no policy" in problem_of("policy_mode", "nothing\0", "off")
    with pytest.raises(CommandError):
        output_of("policy_mode", "p", "on")


def test_the_examples_are_added_once(make_webhook) -> None:
    make_webhook("review")
    assert "no webhook" in problem_of("policy_examples", "--webhook=nothing")
    assert len(json.loads(output_of("policy_examples", "--webhook=review", "--json"))) == len(SHIPPED)
    assert output_of("policy_examples") == "They are all there.\n"
    assert set(HookPolicy.objects.values_list("mode", flat=True)) == {"off"}
