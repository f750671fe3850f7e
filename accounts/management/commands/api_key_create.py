"""manage.py api_key_create --user NAME --name NAME [--expires-in-days N]
[--scope SCOPE]... [--priority CLASS] [--session-trust] [--keeps-text] [--max-tokens-per-day N …]
[--json]"""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from accounts import services
from accounts.contracts import NO_LIMITS, KeyPriority, Policy
from accounts.management.accounts_command import AccountsCommand, api_key_summary
from accounts.management.limit_arguments import add_limit_arguments, limits_from
from accounts.scopes import DEFAULT_SCOPES, Scope, scopes_sorted

MAX_DAYS = 36_500


def _num_days(text: str) -> int:
    num_days = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if not 1 <= num_days <= MAX_DAYS:
        raise ArgumentTypeError(f"a whole number of days from 1 to {MAX_DAYS:,}")
    return num_days


class Command(AccountsCommand):
    help = "Make an API key, and its user if there is none. The key is printed once and cannot be read again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", required=True, help="whose key it is; made if there is no such user")
        parser.add_argument("--name", required=True, help="what the key is for")
        parser.add_argument(
            "--expires-in-days", type=_num_days, metavar="N", help="default: it does not expire"
        )
        parser.add_argument(
            "--priority", choices=[one.value for one in KeyPriority], help="default: the user's, or normal"
        )
        parser.add_argument(
            "--session-trust", action="store_true", help="believe sessions named in SKIPPY_SESSION_HEADER"
        )
        parser.add_argument(
            "--scope",
            action="append",
            choices=[one.value for one in Scope],
            help="what the key may be used for; repeat it for several "
            f"(default: {' and '.join(scopes_sorted(DEFAULT_SCOPES))})",
        )
        parser.add_argument("--keeps-text", action="store_true", help="keep its prompts and answers")
        add_limit_arguments(parser)
        parser.add_argument("--json", action="store_true", help="print one JSON object, with `key`")

    def handle(self, *args: Any, **options: Any) -> None:
        days = options["expires_in_days"]
        expires_at = None if days is None else timezone.now() + timedelta(days=days)
        priority = KeyPriority(options["priority"]) if options["priority"] else None
        policy = Policy(options["session_trust"], priority, options["keeps_text"])
        scopes = frozenset(map(Scope, options["scope"])) if options["scope"] else DEFAULT_SCOPES
        with transaction.atomic():  # a refused name leaves no user behind
            user = services.user_ensure(username=options["user"])
            row, minted = services.api_key_create(
                user=user,
                name=options["name"],
                expires_at=expires_at,
                policy=policy,
                scopes=scopes,
                limits=limits_from(options, before=NO_LIMITS),
            )
        if options["json"]:
            self.print_json({"key": minted.plaintext, **api_key_summary(row)})
            return
        end = "does not expire" if expires_at is None else f"expires on {expires_at:%Y-%m-%d %H:%M} UTC"
        self.stdout.write(f"API key {row.name!r} (id {row.pk}) of user {user.get_username()!r}; it {end}.")
        self.stdout.write("Keep it now, it is not shown again:")
        self.stdout.write(f"\n    {minted.plaintext}\n")
