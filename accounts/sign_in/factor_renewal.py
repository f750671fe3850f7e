"""Secrets of second factors under the service's present key, so that the key before can be forgotten."""

from __future__ import annotations

from allauth.mfa.models import Authenticator
from django.db import transaction

from accounts.models.administrative_change import ChangeAction
from accounts.secret_renewal import RENEWED_CHANGES, SecretRenewal
from accounts.sign_in.events import factor_change_record
from accounts.sign_in.factor_box import factor_box

# Where allauth keeps what it has encrypted: of an app, and what recovery codes are made of.
_FIELDS = {Authenticator.Type.TOTP: "secret", Authenticator.Type.RECOVERY_CODES: "seed"}


def factor_secrets_reencrypt() -> SecretRenewal:
    """Encrypt anew what was encrypted with a former key. May be repeated, and run while the service does.
    Names are users'."""
    renewed: list[str] = []
    unreadable: list[str] = []
    num_current = 0
    box = factor_box()
    for pk in Authenticator.objects.filter(type__in=_FIELDS).order_by("pk").values_list("pk", flat=True):
        # Locked one by one: who signs in meanwhile writes the period of his code into the same row.
        with transaction.atomic():
            row = Authenticator.objects.select_for_update().select_related("user").filter(pk=pk).first()
            if row is None:
                continue
            field, name = _FIELDS[row.type], row.user.get_username()
            try:
                sealed = box.sealed_anew(row.data[field])
            except ValueError:
                unreadable.append(name)
                continue
            if sealed is None:
                num_current += 1
                continue
            row.data[field] = sealed
            row.save(update_fields=["data"])
            factor_change_record(row.user, ChangeAction.CHANGED, row.type, RENEWED_CHANGES)
            renewed.append(name)
    return SecretRenewal(tuple(renewed), tuple(unreadable), num_current)
