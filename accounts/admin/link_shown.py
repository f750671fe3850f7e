"""The page that shows a new link once."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from accounts.link_delivery import can_mail, is_local, link_mail, link_url
from accounts.models import PasswordLink
from accounts.password_tokens import MintedToken


def link_shown_once(
    model_admin: Any, request: HttpRequest, link: PasswordLink, minted: MintedToken, *, wants_mail: bool
) -> HttpResponse:
    """What was made in a transaction that is over: mail that fails takes nothing back."""
    url = link_url(minted, request)
    is_mailed = link_mail(link, url) if wants_mail and can_mail(link.user) else None
    context = {
        **model_admin.admin_site.each_context(request),
        "opts": PasswordLink._meta,
        "title": "Copy the link now",
        "link": link,
        "url": url,
        "is_local": is_local(url),
        "is_mailed": is_mailed,
    }
    response = TemplateResponse(request, "admin/accounts/passwordlink/link_shown_once.html", context)
    response["Cache-Control"] = "no-store, private"
    return response
