"""Taking a second factor from somebody who has lost it."""

from __future__ import annotations

from typing import Any

from allauth.mfa.models import Authenticator
from django.db import transaction

from accounts.models.administrative_change import ChangeAction
from accounts.sign_in.attempts import attempts_forget_user
from accounts.sign_in.events import factor_change_record, sessions_end


@transaction.atomic
def second_factor_remove(*, user: Any) -> bool:
    """Whether there was one. His sessions end: whoever has one may be the reason."""
    found = list(Authenticator.objects.select_for_update().filter(user_id=user.pk))
    for row in found:
        row.delete()
        factor_change_record(user, ChangeAction.DELETED, row.type)
    if found:
        attempts_forget_user(user.pk)
        sessions_end(user.pk)
    return bool(found)
