"""Limits and teams: who may decide what, and how soon it holds."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from ipaddress import ip_network

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.management import CommandError
from django.db import IntegrityError, connection, transaction
from django.db.models import ProtectedError
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from accounts import services
from accounts.contracts import KeyLimits, KeyPriority, Limits, Policy
from accounts.models import ApiKey, LimitCounter, Team
from accounts.selectors import api_key_facts_read, api_key_lookup
from tests.integration.accounts.test_admin import POLICY_FORM, add_form
from tests.integration.accounts.test_commands import output_of

pytestmark = pytest.mark.django_db

ALL = Limits(
    max_requests_per_minute=1,
    max_tokens_per_minute=2,
    max_parallel_requests=3,
    max_tokens_per_day=4,
    max_tokens_per_week=5,
    max_tokens_per_month=2**62,
    budget_alert_percent=50,
    allowed_models=("a", "b"),
    allowed_networks=(ip_network("10.0.0.0/8"), ip_network("2001:db8::/32")),
)


class TestServices:
    @pytest.mark.django_db(transaction=True)
    def test_a_principal_has_the_limits_of_all_three(self, ann) -> None:
        team = services.team_create(name="Physics", limits=Limits(max_parallel_requests=9))
        services.user_team_set(user=ann, team=team)
        services.user_policy_set(user=ann, policy=Policy(), limits=Limits(max_tokens_per_day=5))
        row, _ = services.api_key_create(user=ann, name="laptop", limits=ALL)
        with CaptureQueriesContext(connection) as captured:
            facts = api_key_facts_read(row.digest)
        assert len(captured) == 1
        principal = facts.principal
        assert principal.team_id == team.pk
        expected = KeyLimits(ALL, Limits(max_tokens_per_day=5), Limits(max_parallel_requests=9))
        assert principal.limits == expected

    def test_a_new_key_in_place_of_an_old_one_has_its_limits(self, ann) -> None:
        row, _ = services.api_key_create(user=ann, name="laptop", limits=ALL)
        new, _ = services.api_key_rotate(key=row)
        assert ApiKey.objects.get(pk=new.pk).limits() == ALL

    def test_an_update_that_says_nothing_of_limits_leaves_them(self, ann) -> None:
        row, _ = services.api_key_create(user=ann, name="laptop", limits=ALL)
        services.api_key_update(key=row, name="desk", expires_at=None)
        services.user_policy_set(user=ann, policy=Policy(), limits=ALL)
        services.user_policy_set(user=ann, policy=Policy(has_session_trust=True))
        assert ApiKey.objects.get(pk=row.pk).limits() == ALL == ann.policy.limits()

    @pytest.mark.parametrize(
        "limits",
        [
            Limits(max_requests_per_minute=-1),
            Limits(max_requests_per_minute=2**31),
            Limits(max_tokens_per_day=2**62 + 1),
            Limits(budget_alert_percent=0),
            Limits(budget_alert_percent=101),
            Limits(allowed_models=("a\0b",)),
            Limits(allowed_models=("",)),
            Limits(allowed_models=tuple(str(number) for number in range(101))),
        ],
    )
    def test_what_makes_no_sense_is_refused_everywhere(self, ann, key, limits) -> None:
        with pytest.raises(ValidationError):
            services.api_key_create(user=ann, name="x", limits=limits)
        with pytest.raises(ValidationError):
            services.api_key_update(key=key[0], name="x", expires_at=None, limits=limits)
        with pytest.raises(ValidationError):
            services.user_policy_set(user=ann, policy=Policy(), limits=limits)
        with pytest.raises(ValidationError):
            services.team_create(name="t", limits=limits)

    def test_the_database_refuses_what_nobody_checked(self, key) -> None:
        with pytest.raises(IntegrityError, match="limits_not_negative"), transaction.atomic():
            ApiKey.objects.update(max_tokens_per_day=-1)
        with pytest.raises(IntegrityError, match="alert_is_a_percentage"), transaction.atomic():
            ApiKey.objects.update(budget_alert_percent=0)

    def test_names_of_teams_are_unique_and_readable(self) -> None:
        services.team_create(name="Physics")
        for name in ("Physics", "", "a\nb"):
            with pytest.raises(ValidationError):
                services.team_create(name=name)

    def test_a_team_with_members_stays(self, ann) -> None:
        team = services.team_create(name="Physics")
        services.user_team_set(user=ann, team=team)
        with pytest.raises(ValidationError):
            services.team_delete(team=team)
        with pytest.raises(ProtectedError):
            team.delete()
        services.user_team_set(user=ann, team=None)
        services.team_delete(team=team)
        assert not Team.objects.exists()

    @pytest.mark.django_db(transaction=True)
    async def test_a_change_of_the_team_reaches_its_keys_at_once(self, ann, key) -> None:
        team = await sync_to_async(services.team_create)(name="Physics")
        await sync_to_async(services.user_team_set)(user=ann, team=team)
        before = (await api_key_lookup(plaintext=key[1].plaintext)).principal
        assert (before.team_id, before.limits) == (team.pk, KeyLimits())
        await sync_to_async(services.team_update)(
            team=team, name="Physics", priority=KeyPriority.BATCH, limits=ALL
        )
        after = (await api_key_lookup(plaintext=key[1].plaintext)).principal
        assert (after.priority, after.limits.of_team) == (KeyPriority.BATCH, ALL)


class TestAdmin:
    def test_a_key_is_given_limits_in_its_form(self, admin_client, ann) -> None:
        form = add_form(
            admin_client,
            ann,
            max_tokens_per_day="1000",
            budget_alert_percent="",
            allowed_models="a,b",
            allowed_networks="10.0.0.0/8",
        )
        assert admin_client.post(reverse("admin:accounts_apikey_add"), form).status_code == 200
        limits = ApiKey.objects.get().limits()
        assert limits == Limits(
            max_tokens_per_day=1000, allowed_models=("a", "b"), allowed_networks=(ip_network("10.0.0.0/8"),)
        )

    @pytest.mark.parametrize(
        ("field", "value"),
        [("max_tokens_per_day", "-1"), ("allowed_networks", "10.0.0.1/8"), ("budget_alert_percent", "101")],
    )
    def test_what_makes_no_sense_is_said_at_its_field(self, admin_client, ann, field, value) -> None:
        form = add_form(admin_client, ann, **{field: value})
        response = admin_client.post(reverse("admin:accounts_apikey_add"), form)
        assert response.status_code == 200 and not ApiKey.objects.exists()
        assert field in response.context["adminform"].form.errors

    def test_a_team_is_made_changed_and_joined(self, admin_client, ann) -> None:
        sent = {"name": "Physics", "priority": "", "max_parallel_requests": "3"}
        assert admin_client.post(reverse("admin:accounts_team_add"), sent).status_code == 302
        team = Team.objects.get()
        sent = {"name": "Physics 2", "priority": "batch", "max_parallel_requests": ""}
        page = reverse("admin:accounts_team_change", args=[team.pk])
        assert admin_client.post(page, sent).status_code == 302
        team.refresh_from_db()
        assert (team.name, team.priority, team.limits()) == ("Physics 2", "batch", Limits())
        user_form = {
            "username": "ann",
            "is_active": "on",
            "date_joined_0": f"{ann.date_joined:%Y-%m-%d}",
            "date_joined_1": f"{ann.date_joined:%H:%M:%S}",
            **POLICY_FORM,
            "policy-0-team": str(team.pk),
            "policy-0-max_tokens_per_month": "7",
            "policy-0-user": str(ann.pk),
        }
        assert (
            admin_client.post(reverse("admin:auth_user_change", args=[ann.pk]), user_form).status_code == 302
        )
        ann = User.objects.get(pk=ann.pk)
        assert (ann.policy.team, ann.policy.limits()) == (team, Limits(max_tokens_per_month=7))
        html = admin_client.get(reverse("admin:accounts_team_changelist")).content.decode()
        assert "Physics 2" in html

    def test_the_list_of_teams_takes_as_many_queries_for_60_as_for_5(self, admin_client) -> None:
        counts = []
        for total in (5, 60):
            for number in range(Team.objects.count(), total):
                services.team_create(name=f"team {number}")
            with CaptureQueriesContext(connection) as captured:
                assert admin_client.get(reverse("admin:accounts_team_changelist")).status_code == 200
            counts.append(len(captured))
        assert counts[0] == counts[1] <= 15


class TestCommands:
    def test_a_key_is_made_with_limits_and_shows_them(self) -> None:
        answer = json.loads(
            output_of(
                *("api_key_create", "--user", "ann", "--name", "x", "--json"),
                *(
                    "--max-tokens-per-day",
                    "1000",
                    "--allowed-networks",
                    "10.0.0.0/8",
                    "--allowed-models",
                    "a, b",
                ),
            )
        )
        assert answer["limits"] == {
            "max_tokens_per_day": 1000,
            "budget_alert_percent": 80,
            "allowed_models": ["a", "b"],
            "allowed_networks": ["10.0.0.0/8"],
        }

    def test_limits_are_shown_changed_and_taken_away(self, ann, key) -> None:
        services.team_create(name="Physics")
        for whose in (("--key", str(key[0].pk)), ("--user", "ann"), ("--team", "Physics")):
            assert json.loads(output_of("limits", *whose, "--json")) == {"limits": {}, "used": {}}
            output_of("limits", *whose, "--max-parallel-requests", "3", "--max-tokens-per-minute", "9")
            shown = json.loads(output_of("limits", *whose, "--max-parallel-requests", "none", "--json"))
            assert shown["limits"] == {"max_tokens_per_minute": 9}
            assert "tokens per minute: 9" in output_of("limits", *whose)

    def test_what_was_used_is_shown(self, key) -> None:
        day = datetime.now(UTC).date()
        LimitCounter.objects.create(
            scope="key",
            owner_id=key[0].pk,
            num_open=2,
            day_start=day,
            day_tokens=7,
            week_start=day,
            week_tokens=8,
            month_start=day,
            month_tokens=9,
        )
        used = json.loads(output_of("limits", "--key", str(key[0].pk), "--json"))["used"]
        assert (used["parallel_requests"], used["tokens_per_day"], used["tokens_per_minute"]) == (2, 7, 0)

    def test_a_team_is_made_and_its_members_come_and_go(self, ann) -> None:
        answer = json.loads(output_of("team_set", "Physics", "--add", "ann", "--priority", "batch", "--json"))
        assert (answer["members"], answer["priority"]) == (["ann"], "batch")
        answer = json.loads(
            output_of("team_set", "Physics", "--remove", "ann", "--max-tokens-per-day", "5", "--json")
        )
        assert (answer["members"], answer["limits"]["max_tokens_per_day"]) == ([], 5)
        assert answer["priority"] == "batch"

    @pytest.mark.parametrize(
        "arguments",
        [
            ("limits", "--user", "nobody"),
            ("limits", "--team", "nobody"),
            ("limits", "--key", "999999"),
            ("limits", "--user", "ann", "--max-tokens-per-day", "-5"),
            ("limits", "--user", "ann", "--max-tokens-per-day", "many"),
            ("limits", "--user", "ann", "--allowed-networks", "10.0.0.1/8"),
            ("limits", "--user", "ann", "--budget-alert-percent", "0"),
            ("team_set", "a\nb"),
            ("team_set", "Physics", "--add", "nobody"),
            ("team_set", "Physics", "--remove", "ann"),
        ],
    )
    def test_what_goes_wrong_is_one_sentence_and_changes_nothing(self, ann, arguments) -> None:
        with pytest.raises(CommandError):
            output_of(*arguments)
        assert not Team.objects.exists()
        assert not hasattr(User.objects.get(pk=ann.pk), "policy")
