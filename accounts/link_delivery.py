"""How a link gets to its person: as an address to copy, and by mail where there is a mail server and an
address.

Mail is an extra that may fail: the link is shown to who made it either way.
"""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import urljoin, urlsplit

from django.conf import settings
from django.core.mail import send_mail
from django.http import HttpRequest
from django.urls import reverse

from accounts.models import PasswordLink
from accounts.models.password_link import LinkPurpose
from accounts.password_tokens import MintedToken

logger = logging.getLogger(__name__)
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def link_url(minted: MintedToken, request: HttpRequest | None = None) -> str:
    """The absolute address: at the public URL, else where who asks has found us, else where we listen."""
    path = reverse("console:welcome", args=[minted.plaintext])
    base = settings.CONSOLE_PUBLIC_URL or (
        settings.CONSOLE_LOCAL_URL if request is None else request.build_absolute_uri("/")
    )
    return urljoin(base, path)


def is_local(url: str) -> bool:
    """Whether the address opens on this machine alone."""
    return urlsplit(url).hostname in _LOOPBACK


def can_mail(user: Any) -> bool:
    return bool(settings.HAS_MAIL_SERVER and user.email)


def link_mail(link: PasswordLink, url: str) -> bool:
    """Send the link to its user's address; False where that failed."""
    name = link.user.get_username()
    if link.purpose == LinkPurpose.INVITATION:
        subject, why = (
            "You are invited to Skippy",
            f"You have an account on Skippy; your user name is {name}.",
        )
    else:
        subject, why = "A new password for Skippy", f"Somebody asked for a new password for you, {name}."
    text = (
        f"{why}\n\nSet your password here:\n\n{url}\n\nThe link works once, until "
        f"{link.expires_at:%Y-%m-%d %H:%M} UTC. If you did not expect it, do nothing."
    )
    try:
        send_mail(subject, text, settings.ENVIRONMENT.email_from or None, [link.user.email])
    except Exception as error:
        # The class only: a mail server's answer may repeat what was sent.
        logger.warning("a password link could not be mailed: %s", type(error).__name__)
        return False
    return True
