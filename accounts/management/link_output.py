"""How commands tell of a link: on a terminal, once."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from accounts.link_delivery import can_mail, is_local, link_mail, link_url
from accounts.management.accounts_command import AccountsCommand, instant
from accounts.models import PasswordLink
from accounts.password_tokens import MintedToken


def add_link_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--mail", action="store_true", help="send it to his address as well")
    parser.add_argument("--json", action="store_true", help="print one JSON object, with `url`")


def link_told(
    command: AccountsCommand, link: PasswordLink, minted: MintedToken, options: Mapping[str, Any]
) -> None:
    url = link_url(minted)
    name = link.user.get_username()
    is_mailed = options["mail"] and can_mail(link.user) and link_mail(link, url)
    if options["json"]:
        command.print_json(
            {
                "url": url,
                "user": name,
                "purpose": link.purpose,
                "expires_at": instant(link.expires_at),
                "is_mailed": is_mailed,
            }
        )
        return
    command.stdout.write(
        f"A link for {name!r}, good once until {link.expires_at:%Y-%m-%d %H:%M} UTC. It is not shown again:"
    )
    command.stdout.write(f"\n    {url}\n")
    if options["mail"]:
        sent = "It was sent by mail as well." if is_mailed else "It was NOT sent by mail."
        command.stdout.write(sent)
    if is_local(url):
        command.stdout.write("Its address opens on this machine alone: set SKIPPY_PUBLIC_URL for others.")
