"""manage.py password_link USER [--hours N] [--mail] [--json]"""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from accounts.management.accounts_command import AccountsCommand, user_named
from accounts.management.link_output import add_link_arguments, link_told
from accounts.password_links import password_link_create

MAX_HOURS = 720


class Command(AccountsCommand):
    help = "Print a link with which a user sets a new password, once. His old one goes on until then."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user", help="his user name")
        parser.add_argument(
            "--hours",
            type=int,
            choices=range(1, MAX_HOURS + 1),
            metavar="N",
            help="how long the link is good for (default: SKIPPY_PASSWORD_LINK_HOURS)",
        )
        add_link_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        valid_for = None if options["hours"] is None else timedelta(hours=options["hours"])
        link, minted = password_link_create(user=user_named(options["user"]), valid_for=valid_for)
        link_told(self, link, minted, options)
