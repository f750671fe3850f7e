"""Who must have a second factor, who has one, and whether this session was begun with it.

A password alone is what most break-ins begin with. The operator says for whom that is not enough
(`SKIPPY_REQUIRE_MFA`); pages (`gate`), the management API, the live page's socket and the playground's passes
ask here, and nowhere else.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from allauth.mfa.utils import decrypt
from django.conf import settings
from django.db import transaction
from django.utils.crypto import constant_time_compare

from accounts.roles import Role

# What a session has, once it was begun with a second factor: ours, or the provider's where that counts.
SESSION_MARK = "second_factor"
PERIOD_S = 30
# A code is good one period before and after its own, for clocks that are not quite right.
TOLERANCE = 1
_LAST_STEP = "last_step"


class FactorMark(StrEnum):
    OWN = "own"
    PROVIDER = "provider"


class FactorRule(StrEnum):
    """Who must have one."""

    OFF = "off"
    ADMINISTRATORS = "administrators"
    STAFF = "staff"
    ALL = "all"

    def concerns(self, user: Any) -> bool:
        match self:
            case FactorRule.OFF:
                return False
            case FactorRule.ALL:
                return True
            case FactorRule.STAFF:
                return bool(user.is_staff or user.is_superuser)
            case FactorRule.ADMINISTRATORS:
                if user.is_superuser:
                    return True
                return bool(user.groups.filter(name=Role.ADMINISTRATOR.value).exists())


def must_have_factor(user: Any) -> bool:
    return FactorRule(settings.SECOND_FACTOR_RULE).concerns(user)


def has_factor(user: Any) -> bool:
    return bool(Authenticator.objects.filter(user_id=user.pk, type=Authenticator.Type.TOTP).exists())


def is_factor_missing(user: Any, session: Mapping[str, Any]) -> bool:
    """Whether this session may not go on: its user must have a second factor, and has none, or the session
    was begun without it. `session` is what the session holds. No query where nobody must have one."""
    if not must_have_factor(user):
        return False
    match session.get(SESSION_MARK):
        case FactorMark.PROVIDER:
            # Sessions outlive the setting: one that trusts the provider no more is meant for them as well.
            return not settings.PROVIDER_COUNTS_AS_FACTOR
        case FactorMark.OWN:
            return not has_factor(user)
        case _:
            return True


def totp_step(secret: str, code: str, *, after: int = 0, now_s: float | None = None) -> int | None:
    """The period (RFC 6238: how many 30 s since 1970) whose code this is, if it is later than `after`."""
    present = int(time.time() if now_s is None else now_s) // PERIOD_S
    found = None
    for step in range(present - TOLERANCE, present + TOLERANCE + 1):
        is_it = constant_time_compare(format_hotp_value(hotp_value(secret, step)), code)
        if is_it and step > after:
            found = step
    return found


def totp_accept(*, authenticator_id: int, code: str) -> bool:
    """Whether this is a code of now that was not used yet, nor one after it; then it is used (RFC 6238, 5.2).
    In the database, so that it holds for all processes."""
    with transaction.atomic():
        row = Authenticator.objects.select_for_update().filter(pk=authenticator_id).first()
        if row is None:
            return False
        step = totp_step(decrypt(row.data["secret"]), code, after=row.data.get(_LAST_STEP, 0))
        if step is None:
            return False
        row.data[_LAST_STEP] = step
        row.save(update_fields=["data"])
    return True


def totp_step_use(*, user: Any, step: int) -> None:
    """The code with which the factor was set up signs nobody in."""
    for row in Authenticator.objects.filter(user_id=user.pk, type=Authenticator.Type.TOTP):
        row.data[_LAST_STEP] = step
        row.save(update_fields=["data"])
