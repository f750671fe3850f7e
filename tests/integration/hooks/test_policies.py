"""Changing policies: all of it is kept, what cannot be is refused by its field, and the history has it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from accounts import services as accounts
from accounts.models import AdministrativeChange
from hooks.contracts.actions import (
    CallWebhook,
    ClampParameter,
    Deny,
    InjectText,
    MaskKind,
    MaskText,
    SetParameter,
    Tag,
    TextTarget,
)
from hooks.contracts.points import HookPoint
from hooks.contracts.policies import FailureRule, PolicyMode, PolicyScope
from hooks.contracts.refusals import AlreadyTaken, HookRefusal, InvalidField, NotThere
from hooks.contracts.signals import WindowRule
from hooks.examples import SHIPPED
from hooks.models import HookPolicy
from hooks.selectors import policy_snapshot_read
from hooks.services.columns import policy_of
from hooks.services.policies import (
    policies_add_examples,
    policies_reorder,
    policy_create,
    policy_delete,
    policy_get,
    policy_set_mode,
    policy_update,
)
from inference.models import ModelRow
from tests.integration.hooks.conftest import policy_for, write_past

pytestmark = pytest.mark.django_db


def refused(call: Any) -> tuple[str | None, str]:
    with pytest.raises(HookRefusal) as raised:
        call()
    return raised.value.field, raised.value.problem


def create(name: str = "watch", **members: Any) -> HookPolicy:
    return policy_create(policy=policy_for(name, **members))


class TestAll:
    def test_every_field_comes_back(self) -> None:
        user = accounts.user_ensure(username="ann")
        team = accounts.team_create(name="t")
        key, _ = accounts.api_key_create(user=user, name="k")
        ModelRow.objects.create(model_id="org/tiny", source="/x.gguf")
        policy = policy_for(
            "all of it",
            point=HookPoint.MID_GENERATION,
            actions=(InjectText("hm", is_shown=True), Tag("a", "b")),
            condition="",
            order=7,
            mode=PolicyMode.OBSERVE,
            is_required=False,
            scope=PolicyScope(
                frozenset({team.pk}), frozenset({user.pk}), frozenset({key.pk}), frozenset({"org/tiny"})
            ),
            deadline_s=0.25,
            on_failure=FailureRule.OPEN,
            window=WindowRule(window_tokens=32, high_entropy=2.5, every_tokens=100),
            held_chars=0,
        )

        row = policy_create(policy=policy, description="why")

        found = HookPolicy.objects.get(pk=row.pk)
        assert policy_of(found) == replace(policy, policy_id=row.pk)
        assert found.description == "why"
        assert found.revision == 1

    def test_a_change_raises_the_revision_and_no_change_does_not(self, make) -> None:
        row = make()
        policy = policy_of(row)

        assert policy_update(policy=policy, description="").revision == 1
        changed = policy_update(policy=replace(policy, order=3), description="d")
        assert changed.revision == 2
        assert changed.updated_at > row.created_at
        assert policy_of(policy_get(policy_id=row.pk)).order == 3

    def test_the_history_has_who_did_what(self, make) -> None:
        row = make("p")
        policy_update(policy=replace(policy_of(row), condition=""), description="new")
        policy_set_mode(policy_id=row.pk, mode=PolicyMode.ENFORCE)
        policy_delete(policy_id=row.pk)

        lines = AdministrativeChange.objects.filter(subject_kind="hook_policy", subject_id=row.pk)
        told = [(line.action, line.changes) for line in lines.order_by("pk")]
        assert [action for action, _ in told] == ["created", "changed", "changed", "deleted"]
        assert told[0][1]["actions"] == [None, [{"type": "tag", "name": "seen", "value": ""}]]
        assert told[1][1] == {"description": ["", "new"]}
        assert told[2][1] == {"mode": ["off", "enforce"]}
        assert told[3][1]["name"] == ["p", None]


class TestRefused:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("max_completion_tokens", 100.0),
            ("best_of", 2),
            ("n", 2),
            ("seed", 1),
            ("ignore_eos", True),
            ("top_p", None),
        ],
    )
    def test_not_what_a_client_could_have_sent(self, name: str, value: Any) -> None:
        assert create(actions=(SetParameter(name, value),)).pk

    def test_switching_on_what_no_client_could_send(self, make) -> None:
        row = make()
        write_past(
            "hooks_hookpolicy",
            """actions = '[{"type": "set_parameter", "name": "temperature", "value": 7}]'""",
        )

        field, problem = refused(lambda: policy_set_mode(policy_id=row.pk, mode=PolicyMode.ENFORCE))
        assert field == "actions[0].value"
        assert "between 0 and 2" in problem

    @pytest.mark.parametrize(
        ("field", "members"),
        [
            ("name", {"name": ""}),
            ("name", {"name": " spaced "}),
            ("name", {"name": "x" * 101}),
            ("name", {"name": "a\nb"}),
            ("name", {"name": "a\u202eb"}),
            ("name", {"name": "a\0b"}),
            ("order", {"order": -1}),
            ("order", {"order": 10**7}),
            ("actions", {"actions": ()}),
            ("actions[1].type", {"actions": (Tag("a"), InjectText("x")), "point": HookPoint.TERMINAL}),
            ("actions[0].status", {"actions": (Deny("x", status=200),)}),
            ("actions[0].targets[0]", {"actions": (MaskText((TextTarget.CONTENT,), (MaskKind.EMAIL,)),)}),
            ("actions[0].webhook_id", {"actions": (CallWebhook(10**6),)}),
            ("actions[0].value", {"actions": (SetParameter("temperature", 7),)}),
            ("actions[0].value", {"actions": (SetParameter("max_completion_tokens", -1),)}),
            ("actions[0].value", {"actions": (SetParameter("tempratur", 0.5),)}),
            ("actions[1].maximum", {"actions": (Tag("a"), ClampParameter("temperature", maximum=3.0))}),
            ("actions[0].minimum", {"actions": (ClampParameter("max_tokens", minimum=1.5),)}),
            ("deadline_s", {"deadline_s": 0.0}),
            ("deadline_s", {"deadline_s": 31.0}),
            ("deadline_s", {"deadline_s": float("nan")}),
            ("deadline_s", {"deadline_s": float("inf")}),
            ("held_chars", {"held_chars": -1}),
            ("held_chars", {"held_chars": 4097}),
            ("window.window_tokens", {"window": WindowRule(window_tokens=0)}),
            ("window.min_high_share", {"window": WindowRule(min_high_share=1.5)}),
            ("window.high_entropy", {"window": WindowRule(high_entropy=float("nan"))}),
            ("scope.team_ids", {"scope": PolicyScope(team_ids=frozenset({10**9}))}),
            ("scope.user_ids", {"scope": PolicyScope(user_ids=frozenset({10**9}))}),
            ("scope.key_ids", {"scope": PolicyScope(key_ids=frozenset({10**9}))}),
            ("scope.models", {"scope": PolicyScope(models=frozenset({"nothing"}))}),
            ("scope.models", {"scope": PolicyScope(models=frozenset({"a\0"}))}),
            ("scope.models", {"scope": PolicyScope(models=frozenset(map(str, range(1001))))}),
            ("condition", {"condition": "text.contains("}),
            ("condition", {"condition": "no_such_thing == 1"}),
            ("condition", {"condition": "true\0"}),
            ("condition", {"condition": " " * 100_000 + "true"}),
        ],
    )
    def test_what_cannot_be_is_refused_by_its_field(self, field, members) -> None:
        told, problem = refused(partial(create, **members))

        assert told == field
        assert problem
        assert not HookPolicy.objects.exists()

    def test_a_description_is_bounded(self) -> None:
        for description in ("x" * 4001, "a\0"):
            told = refused(partial(policy_create, policy=policy_for(), description=description))
            assert told[0] == "description"

    def test_a_name_is_of_one_policy(self, make) -> None:
        make("a")
        with pytest.raises(AlreadyTaken):
            create("a")
        other = make("b")
        with pytest.raises(AlreadyTaken):
            policy_update(policy=replace(policy_of(other), name="a"), description="")

    def test_a_policy_is_changed_also_when_one_of_its_teams_is_gone(self, make) -> None:
        team = accounts.team_create(name="t")
        row = make(scope=PolicyScope(team_ids=frozenset({team.pk})))
        policy, gone = policy_of(row), team.pk
        team.delete()

        assert policy_update(policy=replace(policy, order=5), description="").team_ids == [gone]
        with pytest.raises(InvalidField):
            policy_update(
                policy=replace(policy, scope=PolicyScope(team_ids=frozenset({gone, gone + 1}))),
                description="",
            )

    def test_what_is_not_there(self) -> None:
        for call in (
            partial(policy_get, policy_id=1),
            partial(policy_delete, policy_id=1),
            partial(policy_set_mode, policy_id=1, mode=PolicyMode.OFF),
            partial(policy_update, policy=policy_for(policy_id=1), description=""),
        ):
            with pytest.raises(NotThere):
                call()


class TestOrder:
    def test_all_are_put_in_order(self, make) -> None:
        a, b, c = make("a", order=1), make("b", order=1), make("c", order=0)

        policies_reorder(policy_ids=[b.pk, c.pk, a.pk])

        assert [row.name for row in HookPolicy.objects.order_by("order")] == ["b", "c", "a"]
        assert len({row.order for row in HookPolicy.objects.all()}) == 3

    def test_a_list_that_is_not_the_one_there_is_changes_nothing(self, make) -> None:
        a, b = make("a"), make("b")

        for ids in ([a.pk], [a.pk, a.pk], [a.pk, b.pk, b.pk + 1], []):
            assert refused(partial(policies_reorder, policy_ids=ids))[0] == "ids"
        assert {row.order for row in HookPolicy.objects.all()} == {100}


class TestReading:
    def test_those_that_are_not_off_in_the_order_of_their_application(self, make) -> None:
        make("last", order=9, mode=PolicyMode.ENFORCE)
        make("off", order=1)
        make("first", order=2, mode=PolicyMode.OBSERVE)
        make("also last", order=9, mode=PolicyMode.ENFORCE)

        found = policy_snapshot_read()

        assert [policy.name for policy in found.policies] == ["first", "last", "also last"]

    @pytest.mark.parametrize(
        "change",
        [
            """actions = '[{"type": "explode"}]'""",
            """actions = '[5]'""",
            """actions = '[{"type": "inject_text", "text": "x"}]', point = 'terminal'""",
            """condition = 'text.contains('""",
            """condition = repeat('a', 1000000)""",
            """"window" = '{"window_tokens": "many"}'""",
            """team_ids = '{NULL}'""",
        ],
    )
    @pytest.mark.parametrize("is_required", [True, False])
    def test_a_row_written_past_the_checks_stays_a_policy(self, make, change, is_required) -> None:
        row = make("odd", mode=PolicyMode.ENFORCE, is_required=is_required, on_failure=FailureRule.OPEN)
        good = make("good", mode=PolicyMode.ENFORCE)
        write_past("hooks_hookpolicy", change, row.pk)

        odd, fine = policy_snapshot_read().policies

        assert fine.policy_id == good.pk
        assert not fine.fault
        assert odd.fault
        assert odd.name == "odd"
        assert odd.mode is PolicyMode.ENFORCE
        assert odd.on_failure is (FailureRule.CLOSED if is_required else FailureRule.OPEN)
        assert odd.scope == PolicyScope()
        with pytest.raises(InvalidField):
            policy_set_mode(policy_id=row.pk, mode=PolicyMode.OBSERVE)
        policy_set_mode(policy_id=row.pk, mode=PolicyMode.OFF)
        assert [policy.name for policy in policy_snapshot_read().policies] == ["good"]

    @pytest.mark.parametrize(
        "change",
        ["mode = 'sometimes'", "point = 'nowhere'", "deadline_s = 'NaN'", "actions = '{}'", "name = ''"],
    )
    def test_what_the_database_itself_refuses(self, make, change) -> None:
        make()
        with pytest.raises(IntegrityError), transaction.atomic():
            write_past("hooks_hookpolicy", change)


class TestExamples:
    def test_all_of_them_can_be_saved_as_they_are_and_are_off(self, make_webhook) -> None:
        webhook = make_webhook()

        rows = policies_add_examples(webhook_id=webhook.pk)

        assert [row.name for row in rows] == [example.policy.name for example in SHIPPED]
        assert {row.mode for row in rows} == {"off"}
        for row, example in zip(rows, SHIPPED, strict=True):
            assert row.description == example.description
            policy_set_mode(policy_id=row.pk, mode=PolicyMode.ENFORCE)
        found = policy_snapshot_read().policies
        assert len(found) == len(SHIPPED)
        assert not any(policy.fault for policy in found)
        called = {action.webhook_id for one in found for action in one.actions if type(action) is CallWebhook}
        assert called == {webhook.pk}

    def test_those_that_are_there_stay_as_they_are(self, make) -> None:
        make("block-topics", order=1)

        names = [row.name for row in policies_add_examples()]

        assert "block-topics" not in names and "clamp-tokens" in names
        assert HookPolicy.objects.get(name="block-topics").order == 1
        assert policies_add_examples() == []

    def test_without_a_webhook_those_that_call_one_are_left_out(self) -> None:
        policies_add_examples()
        assert HookPolicy.objects.count() == sum(not example.needs_webhook for example in SHIPPED)


@pytest.mark.django_db(transaction=True)
def test_one_of_many_who_take_the_same_name_gets_it(in_threads) -> None:
    results = in_threads(*[partial(create, "wanted")] * 5)

    assert sum(isinstance(one, HookPolicy) for one in results) == 1
    assert sum(isinstance(one, AlreadyTaken) for one in results) == 4
