"""Where somebody who is signed in may go: one list, for the admin's sidebar and for the pages of our own.

A new page adds its `Place` here. A place is shown to whom its page would let in; the page itself decides
that again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import SimpleLazyObject

from accounts.roles import may_open_staff_page


@dataclass(frozen=True, slots=True)
class Place:
    """One page. `icon` is a name of Material Symbols; `permission` is Django's, which staff needs to see it;
    a place without one is for everybody who has signed in."""

    title: str
    url_name: str
    icon: str
    permission: str | None = None

    def is_open_to(self, user: Any) -> bool:
        if self.permission is None:
            return bool(user.is_authenticated)
        return may_open_staff_page(user, self.permission)


@dataclass(frozen=True, slots=True)
class PlaceGroup:
    title: str
    places: tuple[Place, ...]


PLACES: tuple[PlaceGroup, ...] = (
    PlaceGroup(
        "Use",
        (
            Place("Usage", "console:usage", "bar_chart"),
            Place("Requests", "console:requests", "list_alt"),
            Place("My keys", "console:keys", "vpn_key"),
            Place("Playground", "console:playground", "forum"),
            Place("First request", "console:start", "rocket_launch"),
            Place("Your account", "account", "manage_accounts"),
        ),
    ),
    PlaceGroup(
        "Access",
        (
            Place("Keys", "admin:accounts_apikey_changelist", "key", "accounts.view_apikey"),
            Place("Users", "admin:auth_user_changelist", "person", "auth.view_user"),
            Place(
                "Invitations", "admin:accounts_passwordlink_changelist", "mail", "accounts.view_passwordlink"
            ),
            Place("Groups", "admin:auth_group_changelist", "badge", "auth.view_group"),
            Place("Teams", "admin:accounts_team_changelist", "groups", "accounts.view_team"),
        ),
    ),
    PlaceGroup(
        "Serving",
        (
            Place("Models", "admin:inference_modelrow_changelist", "neurology", "inference.view_modelrow"),
            Place("Maintenance", "console:maintenance", "construction", "inference.view_maintenance"),
            Place("Prices", "admin:inference_modelprice_changelist", "payments", "inference.view_modelprice"),
        ),
    ),
    PlaceGroup(
        "Policies",
        (
            Place("Policies", "admin:hooks_hookpolicy_changelist", "policy", "hooks.view_hookpolicy"),
            Place("Decisions", "console:decisions", "gavel", "inference.view_generationrecord"),
            Place("Webhooks", "admin:hooks_webhook_changelist", "webhook", "hooks.view_webhook"),
        ),
    ),
    PlaceGroup(
        "Watching",
        (
            Place("Live", "console:live", "monitor_heart", "inference.view_generationrecord"),
            Place("Alerts", "admin:inference_alert_changelist", "notifications", "inference.view_alert"),
            Place(
                "History",
                "admin:accounts_administrativechange_changelist",
                "history",
                "accounts.view_administrativechange",
            ),
        ),
    ),
)


def places(request: HttpRequest) -> dict[str, Any]:
    """A context processor: `places`, for templates/base.html. Asks for no permission before it is used."""
    return {"places": SimpleLazyObject(lambda: _open_groups(request))}


def sidebar(request: HttpRequest) -> list[dict[str, Any]]:
    """The same, as Unfold wants the navigation of the admin."""
    return [{**group, "separator": True} for group in _open_groups(request)]


def _open_groups(request: HttpRequest) -> list[dict[str, Any]]:
    """The places of who asks; groups without any are left out."""
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return []
    groups = [
        {
            "title": group.title,
            "items": [_item(place, request.path) for place in group.places if place.is_open_to(user)],
        }
        for group in PLACES
    ]
    return [group for group in groups if group["items"]]


def _item(place: Place, path: str) -> dict[str, Any]:
    link = reverse(place.url_name)
    # The first page of the console is above all others of it, and the parts of usage are below it.
    below = f"{link}usage/" if place.url_name == "console:usage" else link
    is_active = path == link or path.startswith(below)
    return {"title": place.title, "icon": place.icon, "link": link, "active": is_active}
