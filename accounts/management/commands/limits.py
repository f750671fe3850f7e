"""manage.py limits (--key REFERENCE | --user NAME | --team NAME) [--max-tokens-per-day N …] [--json]"""

from __future__ import annotations

import time
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import CommandError

from accounts import services
from accounts.contracts import NO_LIMITS, Limits
from accounts.limit_use import limit_use_get
from accounts.limits.contracts import LimitScope
from accounts.management.accounts_command import AccountsCommand
from accounts.management.limit_arguments import (
    add_limit_arguments,
    has_limits,
    limits_from,
    limits_summary,
)
from accounts.models import Team
from accounts.selectors import api_key_find


class Command(AccountsCommand):
    help = "Show what a key, a user or a team may do and has used, or set it. All three hold at once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        whose = parser.add_mutually_exclusive_group(required=True)
        whose.add_argument("--key", metavar="REFERENCE", help="a key's id, or the start of its prefix")
        whose.add_argument("--user", metavar="NAME")
        whose.add_argument("--team", metavar="NAME")
        add_limit_arguments(parser)
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["key"] is not None:
            scope, owner_id, limits = self._key(options)
        elif options["user"] is not None:
            scope, owner_id, limits = self._user(options)
        else:
            scope, owner_id, limits = self._team(options)
        summary = {"limits": limits_summary(limits), "used": _used(scope, owner_id)}
        if options["json"]:
            self.print_json(summary)
            return
        for name, value in summary["limits"].items() or {"limits": "none"}.items():
            shown = ", ".join(map(str, value)) if isinstance(value, list) else value
            self.stdout.write(f"{name.replace('_', ' ')}: {shown}")
        for name, value in summary["used"].items():
            self.stdout.write(f"used, {name.replace('_', ' ')}: {value}")

    def _key(self, options: dict[str, Any]) -> tuple[LimitScope, int, Limits]:
        key = api_key_find(reference=options["key"])
        if has_limits(options):
            limits = limits_from(options, before=key.limits())
            services.api_key_update(key=key, name=key.name, expires_at=key.expires_at, limits=limits)
        return LimitScope.KEY, key.pk, key.limits()

    def _user(self, options: dict[str, Any]) -> tuple[LimitScope, int, Limits]:
        user = get_user_model().objects.filter(username=options["user"]).first()
        if user is None:
            raise CommandError("There is no such user.")
        row = getattr(user, "policy", None)
        if has_limits(options):
            limits = limits_from(options, before=NO_LIMITS if row is None else row.limits())
            policy = services.NO_POLICY if row is None else row.policy()
            row = services.user_policy_set(user=user, policy=policy, limits=limits)
        return LimitScope.USER, user.pk, NO_LIMITS if row is None else row.limits()

    def _team(self, options: dict[str, Any]) -> tuple[LimitScope, int, Limits]:
        team = Team.objects.filter(name=options["team"]).first()
        if team is None:
            raise CommandError("There is no such team: make it with team_set.")
        if has_limits(options):
            limits = limits_from(options, before=team.limits())
            services.team_update(team=team, name=team.name, priority=team.known_priority(), limits=limits)
        return LimitScope.TEAM, team.pk, team.limits()


def _used(scope: LimitScope, owner_id: int) -> dict[str, int]:
    """As the counters have it; empty where nothing was ever counted."""
    used = limit_use_get(scope=scope, owner_id=owner_id, now=time.time())
    return {} if used is None else asdict(used)
