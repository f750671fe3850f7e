"""Commands about accounts: what goes wrong is one sentence on stderr and exit status 1, not a traceback."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import InterfaceError, OperationalError
from django.utils import timezone

from accounts.management.limit_arguments import limits_summary
from accounts.models import ApiKey
from accounts.selectors import KeyAmbiguous, KeyNotFound


class AccountsCommand(BaseCommand):
    """Turns what services and selectors raise into Django's CommandError, and prints JSON."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            output: str | None = super().execute(*args, **options)
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from None
        except (KeyNotFound, KeyAmbiguous) as error:
            raise CommandError(f"{str(error)[:1].upper()}{str(error)[1:]}.") from None
        except (OperationalError, InterfaceError):
            raise CommandError(
                "The database cannot be reached. Is it running, and is SKIPPY_HOME or DATABASE_URL right?"
            ) from None
        return output

    def print_json(self, value: object) -> None:
        self.stdout.write(json.dumps(value, ensure_ascii=False))


def user_named(username: str) -> Any:
    """Raises CommandError where there is nobody of this name."""
    found = get_user_model().objects.filter(username=username).first()
    if found is None:
        raise CommandError("There is no such user.")
    return found


def api_key_summary(row: ApiKey) -> dict[str, object]:
    """What commands print of a key: nothing that opens anything. Instants are ISO 8601 in UTC."""
    return {
        "id": row.pk,
        "prefix": row.visible_prefix,
        "last4": row.last4,
        "user": row.user.get_username(),
        "name": row.name,
        "scopes": row.scopes,
        "state": row.state_at(timezone.now()).value,
        "created_at": instant(row.created_at),
        "expires_at": instant(row.expires_at),
        "revoked_at": instant(row.revoked_at),
        "last_used_at": instant(row.last_used_at),
        "limits": limits_summary(row.limits()),
    }


def instant(value: datetime | None) -> str | None:
    return None if value is None else value.astimezone(timezone.get_default_timezone()).isoformat()
