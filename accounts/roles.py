"""Who may do what: the one place that says it, for admin, console and management API.

Rights that are ticked one by one grow into sets that nobody can name. So there are four roles, each a group
of Django's with exactly the permissions of `ROLE_RIGHTS`; `accounts.role_groups` makes the groups so at each
migration. Who needs another mixture makes a group of his own. docs/roles.md tells the same in words.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from accounts.scopes import DEFAULT_SCOPES, Scope, grantable_scopes


class Role(StrEnum):
    """The value is the name of the group."""

    ADMINISTRATOR = "administrator"
    OPERATOR = "operator"
    AUDITOR = "auditor"
    KEY_OWNER = "key owner"

    @property
    def is_staff(self) -> bool:
        """Whether the admin lets him in at all."""
        return self is not Role.KEY_OWNER


ALL = ("add", "change", "delete", "view")
LOOK = ("view",)
NOTHING: tuple[str, ...] = ()
_WRITTEN = (ALL, ALL, LOOK)
_READ = (LOOK, LOOK, LOOK)
_RULED = (ALL, LOOK, LOOK)
_PRIVATE = (LOOK, NOTHING, NOTHING)
_OF_NOBODY = (NOTHING, NOTHING, NOTHING)

# For each table: what administrator, operator and auditor may do. A key owner has no permission of Django's:
# what is his own is open to him without one.
ROLE_RIGHTS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    # How people sign in: secrets, or tables that are not used.
    "account.emailaddress": _OF_NOBODY,
    "account.emailconfirmation": _OF_NOBODY,
    "accounts.administrativechange": _READ,
    "accounts.apikey": _WRITTEN,
    "accounts.limitcounter": _READ,
    "accounts.limitprocess": _READ,
    "accounts.limitreservation": _READ,
    # For whom: accounts.password_link_rights.
    "accounts.passwordlink": _WRITTEN,
    "accounts.rolegroup": _READ,
    "accounts.signinattempts": _OF_NOBODY,
    "accounts.team": _WRITTEN,
    "accounts.userpolicy": _WRITTEN,
    "admin.logentry": _READ,
    "auth.group": _RULED,
    "auth.permission": _READ,
    # What an operator may change of a user is narrower still: accounts.admin.user.
    "auth.user": (ALL, ("add", "change", "view"), LOOK),
    "hooks.hookpolicy": _RULED,
    "hooks.hookreplay": _READ,
    "hooks.webhook": _RULED,
    "inference.alert": _READ,
    "inference.eventbucket": _READ,
    "inference.generationrecord": _READ,
    # What people asked and were answered is their secret, and so is what answers are kept under.
    "inference.generationtext": _PRIVATE,
    "inference.idempotentrequest": _PRIVATE,
    "inference.maintenance": _WRITTEN,
    "inference.modeladapter": _WRITTEN,
    "inference.modelname": _READ,
    "inference.modelprice": _WRITTEN,
    "inference.modelreport": _READ,
    "inference.modelrow": _WRITTEN,
    "inference.spanlatency": _READ,
    "inference.spanusage": _READ,
    "inference.storedevent": _READ,
    "inference.teamlatencybucket": _READ,
    "inference.teamusagebucket": _READ,
    "inference.usagebucket": _READ,
    "inference.usageday": _READ,
    "inference.usagemonth": _READ,
    "inference.usagepending": _READ,
    "mfa.authenticator": _OF_NOBODY,
    "socialaccount.socialaccount": _OF_NOBODY,
    "socialaccount.socialapp": _OF_NOBODY,
    "socialaccount.socialtoken": _OF_NOBODY,
}
_COLUMNS = (Role.ADMINISTRATOR, Role.OPERATOR, Role.AUDITOR)

# What staff needs in Django's terms to have a scope of the management API when signed in by session.
_SCOPE_PERMISSIONS: Mapping[Scope, tuple[str, ...]] = {
    Scope.KEYS: ("auth.add_user", "auth.change_user", "accounts.add_apikey", "accounts.change_apikey"),
    Scope.MODELS: ("inference.add_modelrow", "inference.change_modelrow", "inference.delete_modelrow"),
    Scope.POLICIES: (
        *(f"hooks.{verb}_hookpolicy" for verb in ("add", "change", "delete")),
        *(f"hooks.{verb}_webhook" for verb in ("add", "change", "delete")),
    ),
    Scope.USAGE_ALL: ("inference.view_generationrecord",),
    Scope.METRICS: ("inference.view_generationrecord", "inference.view_alert"),
}
SESSION_SCOPES = frozenset({Scope.USAGE, Scope.KEYS_OWN})
_MANAGES_ROLES = ("auth.change_group", "auth.change_user")
_SEES_TEXTS = "inference.view_generationtext"


def role_permissions(role: Role, *, app_label: str | None = None) -> frozenset[str]:
    """The permissions of a role as `app.verb_model`, of one app or of all."""
    if role not in _COLUMNS:
        return frozenset()
    column = _COLUMNS.index(role)
    return frozenset(
        f"{app}.{verb}_{model}"
        for label, columns in ROLE_RIGHTS.items()
        for app, _, model in (label.partition("."),)
        if app_label in (None, app)
        for verb in columns[column]
    )


def session_scopes(user: Any) -> frozenset[Scope]:
    """What who is signed in may do in the management API: staff what the admin lets it do, everybody what
    concerns himself."""
    if user.is_superuser:
        return frozenset(Scope)
    granted = {
        scope
        for scope, permissions in _SCOPE_PERMISSIONS.items()
        if user.is_staff and user.has_perms(permissions)
    }
    return SESSION_SCOPES | granted


def session_grantable_scopes(user: Any) -> frozenset[Scope]:
    """What who may write keys in the admin may give to one: never what he has not himself."""
    return grantable_scopes(session_scopes(user)) | DEFAULT_SCOPES | {Scope.KEYS_OWN}


def may_open_staff_page(user: Any, permission: str) -> bool:
    """Whether a page of staff's that needs this permission lets him in."""
    return bool(user.is_active and user.is_staff and user.has_perm(permission))


def sees_everybody(user: Any) -> bool:
    """Whether he sees what all have used."""
    return Scope.USAGE_ALL in session_scopes(user)


def sees_texts_of_others(user: Any) -> bool:
    """Whether he sees what others asked and were answered, where it is kept."""
    return may_open_staff_page(user, _SEES_TEXTS)


def may_have_text_kept(user: Any, *, owner_id: int) -> bool:
    """Whether he may make, replace or change a key so that it keeps text. Whoever has a key reads what is
    kept under it, and nobody would be told: so for others only who may read their texts in any case."""
    return owner_id == user.pk or sees_texts_of_others(user)


def may_manage_roles(user: Any) -> bool:
    """Whether he says who is what, and sets passwords of others. Who cannot, cannot make himself more."""
    return bool(user.is_active and user.is_staff and user.has_perms(_MANAGES_ROLES))


def may_change_account(actor: Any, account: Any) -> bool:
    """Whether `actor`, who may change users, may change this one: superusers are changed by superusers
    alone, and staff by who manages roles."""
    if account.is_superuser:
        return bool(actor.is_superuser)
    return not account.is_staff or may_manage_roles(actor)
