"""What allauth asks of this site about people whom a provider sends."""

from __future__ import annotations

import logging
from typing import Any

from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialAccount, SocialApp
from allauth.socialaccount.providers.base.constants import AuthError
from django.db import transaction
from django.http import HttpRequest

from accounts.models.administrative_change import ChangeAction
from accounts.password_links import invitations_end
from accounts.sign_in.oidc.links import provider_link_record
from accounts.sign_in.oidc.people import (
    NO_SUPERUSERS,
    PersonRefused,
    ProviderPerson,
    person_admit,
    person_create,
    person_find,
    person_role_set,
)
from accounts.sign_in.refusals import provider_failed_page, refused_page

_log = logging.getLogger(__name__)


class ProviderAdapter(DefaultSocialAccountAdapter):
    def list_apps(self, request: Any, provider: Any = None, client_id: Any = None) -> list[SocialApp]:
        """From the settings alone: a row in the table of apps makes nobody a provider."""
        from allauth.socialaccount.adapter import _build_apps_from_settings

        found = _build_apps_from_settings(provider=provider, client_id=client_id)
        return [app for apps in found.values() for app in apps]

    def authenticate_by_email(self, sociallogin: Any) -> None:
        return None  # person_find decides

    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> None:
        """Find or make the user, so that allauth has one to let in; or end it with a page that says why."""
        account = sociallogin.account
        data = account.extra_data
        person = ProviderPerson.of(data.get("userinfo") or data["id_token"])
        try:
            with transaction.atomic():
                person_admit(person)
                if not sociallogin.is_existing:
                    _link(sociallogin, person)
                user = sociallogin.user
                if user.is_superuser:
                    raise PersonRefused(NO_SUPERUSERS)
                _keep_little(account)
                if user.is_active:
                    person_role_set(person, user)
        except PersonRefused as problem:
            _log.warning("a person whom the provider sent was refused: %s", problem)
            raise ImmediateHttpResponse(refused_page(request, str(problem))) from None

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        return False

    def on_authentication_error(
        self,
        request: HttpRequest,
        provider: Any,
        error: Any = None,
        exception: Exception | None = None,
        extra_context: Any = None,
    ) -> None:
        is_cancelled = error == AuthError.CANCELLED
        if not is_cancelled:
            _log.warning(
                "signing in by the provider failed: %s %s", type(exception).__name__, str(exception)[:300]
            )
        status = 401 if exception is None else 502
        raise ImmediateHttpResponse(provider_failed_page(request, status=status, is_cancelled=is_cancelled))


def _link(sociallogin: Any, person: ProviderPerson) -> None:
    found = person_find(person)
    user = found if found is not None else person_create(person)
    account = sociallogin.account
    if found is not None:
        if SocialAccount.objects.filter(user_id=user.pk).exists():
            raise PersonRefused(
                "The account that you would be given here is linked to somebody else already."
            )
        provider_link_record(user, ChangeAction.CREATED)
        invitations_end(user=user)
    account.user = user
    account.save()
    sociallogin.user = user


def _keep_little(account: SocialAccount) -> None:
    """Of what the provider tells nothing is needed later."""
    SocialAccount.objects.filter(pk=account.pk).update(extra_data={})
