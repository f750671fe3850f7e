"""The admin with data in it: few queries, a history on each object, a page for each table or a reason."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from accounts import services
from accounts.contracts import Limits
from tests.integration.console.conftest import signed_in

pytestmark = pytest.mark.django_db(transaction=True)
MAX_QUERIES = 15
OURS = ("accounts", "hooks", "inference")
# Tables without a page in the admin, and where people find what is in them.
ELSEWHERE = {
    "accounts.userpolicy": "on the page of its user",
    "accounts.limitcounter": "counted: what is used of limits is shown where limits are",
    "accounts.limitprocess": "counted: which processes hold reservations, for seconds",
    "accounts.limitreservation": "counted: what open requests hold, for seconds",
    "accounts.signinattempts": "counted: wrong passwords, until they are forgotten",
    "hooks.hookreplay": "the pages of replays, which a policy's form leads to",
    "accounts.rolegroup": "which groups are those of roles",
    "inference.maintenance": "the console's page of maintenance",
    "inference.generationrecord": "the console's log of requests",
    "inference.generationtext": "the console's page of a request",
    "inference.idempotentrequest": "digests, which nobody can read",
    "inference.modeladapter": "on the page of its model",
    "inference.modelname": "the ids and aliases of models, kept by their services",
    "inference.modelreport": "on the page of its model",
    "inference.storedevent": "the console's page of a request",
    "inference.eventbucket": "the API of usage",
    "inference.usagebucket": "the console's page of usage",
    "inference.teamusagebucket": "the console's page of usage",
    "inference.teamlatencybucket": "the console's page of usage",
    "inference.usagemonth": "the console's page of usage",
    "inference.spanusage": "the console's page of usage",
    "inference.spanlatency": "the console's page of usage",
    "inference.usageday": "the console's page of usage",
    "inference.usagepending": "records that will be in usage within a minute",
}


@pytest.fixture
def as_root() -> Client:
    return signed_in(User.objects.create_superuser("root", password="x"))


def test_every_table_has_a_page_or_a_reason() -> None:
    ours = {
        model._meta.label_lower
        for model in apps.get_models()
        if model._meta.app_label in OURS and not model._meta.auto_created
    }
    shown = {model._meta.label_lower for model in admin.site._registry}
    assert ours - shown == set(ELSEWHERE)


def test_lists_and_forms_take_few_queries_however_much_there_is(as_root, filled) -> None:
    beyond = []
    for model, its_admin in admin.site._registry.items():
        name = f"{model._meta.app_label}_{model._meta.model_name}"
        pages = [f"{reverse(f'admin:{name}_changelist')}?{query}" for query in ("", "q=a", "p=1", "o=1.-2")]
        pages += [
            reverse(f"admin:{name}_{verb}", args=[filled.things[name]]) for verb in ("change", "history")
        ]
        if its_admin.has_add_permission.__qualname__.startswith("ModelAdmin"):
            pages.append(reverse(f"admin:{name}_add"))
        for page in pages:
            with CaptureQueriesContext(connection) as captured:
                assert as_root.get(page, follow=True).status_code == 200, page
            told = [one["sql"] for one in captured if one["sql"].startswith(("SELECT", "WITH"))]
            if len(told) > MAX_QUERIES:
                beyond.append((page, len(told)))
            assert not any("count(*)" in sql.lower() and "generationrecord" in sql for sql in told)
    assert beyond == []


def test_every_object_tells_who_changed_it_by_whichever_door(as_root, filled) -> None:
    team = services.team_create(name="told")
    services.team_update(team=team, name="told anew", priority=None, limits=team.limits())
    found = as_root.get(reverse("admin:accounts_team_history", args=[team.pk])).content.decode()
    assert "&quot;told&quot; → &quot;told anew&quot;" in found
    assert "(command)" in found
    of_user = reverse("admin:auth_user_history", args=[filled.things["auth_user"]])
    assert "api key laptop" in as_root.get(of_user).content.decode()
    for model in admin.site._registry:
        name = f"{model._meta.app_label}_{model._meta.model_name}"
        page = as_root.get(reverse(f"admin:{name}_history", args=[filled.things[name]]))
        if name not in ("accounts_administrativechange", "inference_alert"):
            assert "created" in page.content.decode(), name


def test_a_team_with_members_says_what_to_do_instead_of_going(as_root, filled) -> None:
    team_id = filled.things["accounts_team"]
    answer = as_root.get(reverse("admin:accounts_team_delete", args=[team_id]), follow=True)
    assert "Put them elsewhere first" in answer.content.decode()
    assert answer.redirect_chain[-1][0] == reverse("admin:accounts_team_change", args=[team_id])


@pytest.mark.parametrize("role", ["operator", "auditor"])
def test_objects_lead_to_their_usage(filled, role) -> None:
    client = signed_in(filled.users[role])
    for name, parameter in (("accounts_apikey", "key"), ("auth_user", "user"), ("accounts_team", "team")):
        found = client.get(reverse(f"admin:{name}_change", args=[filled.things[name]])).content.decode()
        address = f"{reverse('console:usage')}?{parameter}={filled.things[name]}"
        assert address in found
        assert client.get(address).status_code == 200
    with pytest.raises(NoReverseMatch):
        reverse("admin:inference_generationrecord_changelist")


def test_limits_are_told_with_what_is_used_and_when_it_begins_anew(as_root, filled) -> None:
    key = filled.keys[2]
    team = key.user.policy.team
    for row, limits in ((key, Limits(max_tokens_per_day=1000)), (team, Limits(max_requests_per_minute=7))):
        row.set_limits(limits)
        row.save()
    shown = as_root.get(reverse("admin:accounts_apikey_change", args=[key.pk])).content.decode()
    midnight = (timezone.now() + timedelta(days=1)).strftime("%Y-%m-%d 00:00")
    assert f"0 of 1,000 tokens today, anew at {midnight} UTC" in shown
    assert f"The team {team.name}: 0 of 7 requests in the last minute" in shown
    own = signed_in(key.user).get(reverse("console:keys")).content.decode()
    assert f"0 of 1,000 tokens a day, anew at {midnight}" in own
    assert "Limits of your team" in own
