"""What an operator does with second factors: takes one away, brings all under another secret key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.db import transaction
from django.utils.module_loading import import_string

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


@dataclass(frozen=True, slots=True)
class FactorRenewal:
    """How many secrets were encrypted anew, how many were under the present key, whose no key opens."""

    num_renewed: int
    num_current: int
    unreadable: tuple[str, ...]


def second_factors_reencrypt() -> FactorRenewal:
    """Encrypt what is stored with the present secret key. May be repeated."""
    box = import_string(settings.SECOND_FACTOR_BOX)()
    num_renewed, num_current, unreadable = 0, 0, []
    for pk in list(Authenticator.objects.order_by("pk").values_list("pk", flat=True)):
        with transaction.atomic():
            # A code that is used meanwhile writes into the same column.
            row = Authenticator.objects.select_for_update().select_related("user").filter(pk=pk).first()
            if row is None:
                continue
            name = "seed" if row.type == Authenticator.Type.RECOVERY_CODES else "secret"
            try:
                sealed = box.sealed_anew(row.data[name])
            except ValueError:
                unreadable.append(row.user.get_username())
                continue
            if sealed is None:
                num_current += 1
                continue
            row.data[name] = sealed
            row.save(update_fields=["data"])
            num_renewed += 1
    return FactorRenewal(num_renewed, num_current, tuple(dict.fromkeys(unreadable)))
