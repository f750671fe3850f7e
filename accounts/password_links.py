"""Invitations and password resets that need no mail server: a link that one person hands to another.

Whoever opens it sets a password, once. Opening it uses nothing up, since chats and mail programs look at
links before people do. Setting a password ends all sessions of the user (Django's sessions carry a hash of
it), and ends the link. All of it is told in the history, without the token. Who may make a link is said
elsewhere (`accounts.password_link_rights`); wrong input is a ValidationError with a sentence for people.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from accounts import password_tokens, services
from accounts.actors import Actor, Door, acting, current_actor
from accounts.models import PasswordLink, Team
from accounts.models.password_link import UNENDED, LinkPurpose, LinkState, password_mark
from accounts.password_tokens import MintedToken
from accounts.role_groups import role_set
from accounts.roles import Role
from accounts.self_service import SelfServiceBounds, self_service_set
from accounts.user_services import user_create

MAX_PASSWORD_LENGTH = 1000


class LinkClosed(LookupError):
    """The token is none of ours, or its link was used, revoked or has expired. Which of it is nobody's
    business who has no link."""


@transaction.atomic
def user_invite(
    *,
    username: str,
    email: str = "",
    team: Team | None = None,
    role: Role | None = None,
    max_own_keys: int = 0,
    valid_for: timedelta | None = None,
) -> tuple[PasswordLink, MintedToken]:
    """A new user without a password, and the invitation with which he sets one."""
    user = user_create(username=username, email=email)
    if team is not None:
        services.user_team_set(user=user, team=team)
    if max_own_keys:
        self_service_set(user=user, bounds=SelfServiceBounds(max_keys=max_own_keys))
    if role is not None:
        role_set(user=user, role=role)
    return invitation_create(user=user, valid_for=valid_for)


def invitation_create(*, user: Any, valid_for: timedelta | None = None) -> tuple[PasswordLink, MintedToken]:
    """An invitation for a user who has no password yet; one that he had before is revoked."""
    return _link_create(user, LinkPurpose.INVITATION, valid_for or settings.INVITATION_VALID_FOR)


def password_link_create(
    *, user: Any, valid_for: timedelta | None = None
) -> tuple[PasswordLink, MintedToken]:
    """A link with which a user sets a new password. Until it is used, the old one goes on."""
    return _link_create(user, LinkPurpose.RESET, valid_for or settings.PASSWORD_LINK_VALID_FOR)


@transaction.atomic
def password_link_revoke(*, link: PasswordLink) -> PasswordLink:
    """End a link. Doing it twice is fine, and one that was used stays used."""
    row = PasswordLink.objects.select_for_update(of=("self",)).get(pk=link.pk)
    if row.used_at is None and row.revoked_at is None:
        row.revoked_at = timezone.now()
        row.save(update_fields=["revoked_at"])
    return row


def invitations_end(*, user: Any) -> None:
    """For who has come in another way: whoever still has the link must not come as him later."""
    for link in _unended(user).filter(purpose=LinkPurpose.INVITATION):
        password_link_revoke(link=link)


def password_link_find(*, token: str) -> PasswordLink:
    """The open link of this token, with its user; raises LinkClosed. One indexed query, or none."""
    return _open_link(token, PasswordLink.objects.select_related("user"))


@transaction.atomic
def password_link_use(*, token: str, password: str, request_id: str | None = None) -> PasswordLink:
    """Set the password of the link's user. Raises LinkClosed, or ValidationError for a password that is too
    weak, after which the link is still there. Of two who use it at once one is told that it is closed."""
    # The user first, as where links are made: two that lock in another order would wait for each other.
    user = get_user_model().objects.select_for_update().get(pk=password_link_find(token=token).user_id)
    link = _open_link(token, PasswordLink.objects.select_related("user").select_for_update(of=("self",)))
    validate_password(password, user)
    name = user.get_username()
    with acting(lambda: Actor(Door.LINK, user.pk, name, request_id=request_id)):
        link.used_at = timezone.now()
        link.save(update_fields=["used_at"])
        user.set_password(password)
        user.save(update_fields=["password"])
    return link


def user_saved(
    *, instance: Any, created: bool, raw: bool = False, update_fields: Any = None, **_: Any
) -> None:
    """A receiver of `post_save` of users: a password that was set in another way ends what was handed out to
    set one."""
    if raw or created or (update_fields is not None and "password" not in update_fields):
        return
    for link in _unended(instance):
        if link.password_mark != password_mark(instance.password):
            password_link_revoke(link=link)


def _unended(user: Any) -> QuerySet[PasswordLink]:
    return PasswordLink.objects.filter(UNENDED, user=user)


def _open_link(token: str, rows: QuerySet[PasswordLink]) -> PasswordLink:
    if not password_tokens.is_well_formed(token):
        raise LinkClosed
    link = rows.filter(digest=password_tokens.digest_of(token)).first()
    if link is None or link.state_at(timezone.now()) is not LinkState.OPEN or not link.user.is_active:
        raise LinkClosed
    if link.password_mark != password_mark(link.user.password):
        raise LinkClosed
    return link


@transaction.atomic
def _link_create(user: Any, purpose: LinkPurpose, valid_for: timedelta) -> tuple[PasswordLink, MintedToken]:
    # One at a time for each user, so that two people do not leave two open links behind.
    user = get_user_model().objects.select_for_update(of=("self",)).get(pk=user.pk)
    if not user.is_active:
        raise ValidationError({"user": "This user is switched off: a link would open nothing."})
    # Asked of the locked row: who makes invitations alone must get none for who sets his password just now.
    if purpose is LinkPurpose.INVITATION and user.has_usable_password():
        raise ValidationError(
            {"user": "This user has a password already: make a link for a new password instead."}
        )
    for link in _unended(user):
        password_link_revoke(link=link)
    minted = password_tokens.mint()
    now = timezone.now()
    link = PasswordLink.objects.create(
        user=user,
        purpose=purpose,
        digest=minted.digest,
        password_mark=password_mark(user.password),
        made_by_id=current_actor().user_id,
        created_at=now,
        expires_at=now + valid_for,
    )
    return link, minted
