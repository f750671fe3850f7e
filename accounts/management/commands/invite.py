"""manage.py invite USER [--email ADDRESS] [--team NAME] [--role ROLE] [--days N] [--mail] [--json]"""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import CommandError
from django.db import transaction

from accounts import services
from accounts.invitation_form import MAX_VALID_DAYS
from accounts.management.accounts_command import AccountsCommand
from accounts.management.link_output import add_link_arguments, link_told
from accounts.models import Team
from accounts.password_links import invitation_create, user_invite
from accounts.role_groups import role_set
from accounts.roles import Role
from accounts.user_services import user_update


class Command(AccountsCommand):
    help = (
        "Invite somebody: makes the user, if there is none, and prints a link with which he sets a password."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user", help="his user name")
        parser.add_argument("--email", help="his address")
        parser.add_argument("--team", metavar="NAME", help="put him into this team")
        parser.add_argument("--role", choices=[role.value for role in Role], help="default: key owner")
        parser.add_argument(
            "--days",
            type=int,
            choices=range(1, MAX_VALID_DAYS + 1),
            metavar="N",
            help="how long the link is good for (default: SKIPPY_INVITATION_DAYS)",
        )
        add_link_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        team = None if options["team"] is None else Team.objects.filter(name=options["team"]).first()
        if options["team"] is not None and team is None:
            raise CommandError("There is no such team: manage.py team_set makes one.")
        role = Role(options["role"]) if options["role"] else None
        valid_for = None if options["days"] is None else timedelta(days=options["days"])
        user = get_user_model().objects.filter(username=options["user"]).first()
        with transaction.atomic():
            if user is None:
                link, minted = user_invite(
                    username=options["user"],
                    email=options["email"] or "",
                    team=team,
                    role=role or Role.KEY_OWNER,
                    valid_for=valid_for,
                )
            else:
                user_update(user=user, email=options["email"], may_change_staff=True)
                if team is not None:
                    services.user_team_set(user=user, team=team)
                if role is not None:
                    role_set(user=user, role=role)
                link, minted = invitation_create(user=user, valid_for=valid_for)
        link_told(self, link, minted, options)
