"""manage.py team_set NAME [--add USER …] [--remove USER …] [--priority CLASS] [limits] [--json]"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import CommandError
from django.db import transaction

from accounts import services
from accounts.contracts import KeyPriority
from accounts.management.accounts_command import AccountsCommand
from accounts.management.limit_arguments import add_limit_arguments, limits_from, limits_summary
from accounts.models import Team


class Command(AccountsCommand):
    help = "Make a team, or change it: its members, its class and its limits."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--add", action="append", default=[], metavar="USER", help="may be repeated")
        parser.add_argument("--remove", action="append", default=[], metavar="USER", help="may be repeated")
        parser.add_argument("--priority", choices=[one.value for one in KeyPriority])
        add_limit_arguments(parser)
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        with transaction.atomic():  # a wrong user leaves nothing half done
            team = Team.objects.filter(name=options["name"]).first() or Team()
            team = services.team_update(
                team=team,
                name=options["name"],
                priority=KeyPriority(options["priority"]) if options["priority"] else team.known_priority(),
                limits=limits_from(options, before=team.limits()),
            )
            for name in options["add"]:
                services.user_team_set(user=_user(name), team=team)
            for name in options["remove"]:
                if not team.members.filter(user__username=name).exists():
                    raise CommandError(f"{name!r} is not in this team.")
                services.user_team_set(user=_user(name), team=None)
        members = list(team.members.order_by("user__username").values_list("user__username", flat=True))
        if options["json"]:
            self.print_json(
                {
                    "id": team.pk,
                    "name": team.name,
                    "priority": team.priority or None,
                    "members": members,
                    "limits": limits_summary(team.limits()),
                }
            )
            return
        self.stdout.write(f"Team {team.name!r} (id {team.pk}): {', '.join(members) or 'no members'}.")


def _user(name: str) -> Any:
    user = get_user_model().objects.filter(username=name).first()
    if user is None:
        raise CommandError(f"There is no user {name!r}.")
    return user
