"""manage.py provider_link_remove USER"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from accounts.management.accounts_command import AccountsCommand, user_named
from accounts.sign_in.oidc.links import provider_link_remove


class Command(AccountsCommand):
    help = (
        "Take away a user's link to the identity provider, so that he can be linked anew; end his sessions."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user")

    def handle(self, *args: Any, **options: Any) -> None:
        user = user_named(options["user"])
        if provider_link_remove(user=user):
            self.stdout.write(f"{user.get_username()} has no link any more. Sessions have ended.")
        else:
            self.stdout.write(f"{user.get_username()} has no link to a provider.")
