"""Links between users and the provider's people.

A link is to a subject. Where a provider gives a person another one (it was moved, or made anew), he would be
refused as somebody else for ever: the old link has to go first.
"""

from __future__ import annotations

from typing import Any

from allauth.socialaccount.models import SocialAccount
from django.db import transaction

from accounts.audit import change_record
from accounts.models.administrative_change import ChangeAction
from accounts.sign_in.events import sessions_end

PROVIDER_LINK = "provider_link"


def provider_link_record(user: Any, action: ChangeAction) -> None:
    change_record(
        action=action,
        kind=PROVIDER_LINK,
        subject_id=user.pk,
        label=user.get_username(),
        user_id=user.pk,
    )


@transaction.atomic
def provider_link_remove(*, user: Any) -> bool:
    """Whether there was one. His sessions end: they may be those of who came by it."""
    found = list(SocialAccount.objects.select_for_update().filter(user_id=user.pk))
    for row in found:
        row.delete()
        provider_link_record(user, ChangeAction.DELETED)
    if found:
        sessions_end(user.pk)
    return bool(found)
