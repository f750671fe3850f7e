"""manage.py role USER ROLE"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import CommandError

from accounts.management.accounts_command import AccountsCommand
from accounts.role_groups import role_set
from accounts.roles import Role


class Command(AccountsCommand):
    help = "Give a user a role: administrator, operator, auditor or key owner (docs/roles.md)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user")
        parser.add_argument("role", choices=[role.value for role in Role])

    def handle(self, *args: Any, **options: Any) -> None:
        user = get_user_model().objects.filter(username=options["user"]).first()
        if user is None:
            raise CommandError(f"There is no user {options['user']!r}.")
        role_set(user=user, role=Role(options["role"]))
        self.stdout.write(f"{user.get_username()} is {options['role']}.")
