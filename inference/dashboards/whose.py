"""Teams, users and keys by the names that people know, where a page asks whose requests are meant."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied

from accounts.keys import without_keys
from accounts.models import ApiKey, Team
from inference.dashboards.query import NameNotFound
from inference.dashboards.viewer import Viewer
from inference.usage.selectors import UsageOwner

_CUT = "…"
"""Stands in a key as it is shown, for what nobody sees of it."""


def owner_named(viewer: Viewer, kind: str, name: str) -> int:
    """The id of the team, user or key of this name. Raises NameNotFound, and PermissionDenied for who may not
    ask at all, whether it is there or not."""
    if kind == "key":
        return _key(viewer, name)
    if kind == "team":
        _refuse_unless(viewer.sees_everybody)
        found = Team.objects.filter(name=name).values_list("pk", flat=True).first()
    else:
        found = get_user_model().objects.filter(username=name).values_list("pk", flat=True).first()
        _refuse_unless(viewer.sees_everybody or found == viewer.user_id)
    if found is None:
        raise NameNotFound(f"There is no {kind} “{name}”.")
    return int(found)


def owner_written(owner: UsageOwner, viewer: Viewer) -> dict[str, str]:
    """What stands in the form's fields for whom the page is narrowed to: names that `owner_named` finds. Who
    sees his own usage alone has no field for a user."""
    written: dict[str, Any] = {}
    if owner.team_id is not None:
        name = Team.objects.filter(pk=owner.team_id).values_list("name", flat=True).first()
        written["team"] = _name_or_number(name, owner.team_id)
    if owner.user_id is not None and viewer.sees_everybody:
        users = get_user_model().objects.filter(pk=owner.user_id)
        written["user"] = _name_or_number(users.values_list("username", flat=True).first(), owner.user_id)
    if owner.key_id is not None:
        row = ApiKey.objects.filter(pk=owner.key_id).first()
        written["key"] = str(owner.key_id) if row is None else row.masked
    return written


def _key(viewer: Viewer, name: str) -> int:
    rows = ApiKey.objects.all() if viewer.sees_everybody else ApiKey.objects.filter(user_id=viewer.user_id)
    start, cut, end = name.partition(_CUT)
    if cut:
        rows = rows.filter(visible_prefix=start, last4=end)
    elif name.startswith("sk-"):
        rows = rows.filter(visible_prefix=name)
    else:
        rows = rows.filter(name=name)
    ids = list(rows.order_by("pk").values_list("pk", flat=True)[:2])
    if not ids:
        raise NameNotFound(f"There is no key “{without_keys(name)}”.")
    if len(ids) > 1:
        raise NameNotFound(f"More than one key is called “{name}”: give what is shown of the one you mean.")
    return int(ids[0])


def _name_or_number(name: str | None, number: int) -> str:
    """A name of digits alone would be read as a number."""
    return str(number) if name is None or (name.isascii() and name.isdigit()) else name


def _refuse_unless(may_see: bool) -> None:
    if not may_see:
        raise PermissionDenied("You may see your own usage only.")
