"""What teams, users and keys are called today, by their ids; what is gone has its number."""

from __future__ import annotations

from collections.abc import Iterable

from django.contrib.auth import get_user_model

from accounts.models import ApiKey, Team


def team_names(ids: Iterable[int | None]) -> dict[int | None, str]:
    wanted = set(ids)
    found = dict(Team.objects.filter(pk__in=wanted - {None}).values_list("pk", "name"))
    return {one: "no team" if one is None else found.get(one, f"team {one} (gone)") for one in wanted}


def user_names(ids: Iterable[int]) -> dict[int, str]:
    wanted = set(ids)
    found = dict(get_user_model().objects.filter(pk__in=wanted).values_list("pk", "username"))
    return {one: found.get(one, f"user {one} (gone)") for one in wanted}


def key_names(ids: Iterable[int]) -> dict[int, str]:
    """A key's name with its visible beginning: names of keys need not be unique."""
    wanted = set(ids)
    rows = ApiKey.objects.filter(pk__in=wanted).only("pk", "name", "visible_prefix", "last4")
    found = {row.pk: str(row) for row in rows}
    return {one: found.get(one, f"key {one} (gone)") for one in wanted}
