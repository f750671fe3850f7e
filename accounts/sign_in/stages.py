"""The step between password and page: the second factor of who has one."""

from __future__ import annotations

from allauth.account.internal.flows.login import get_authentication_records
from allauth.mfa.stages import AuthenticateStage
from django.conf import settings
from django.http import HttpRequest


class SecondFactorStage(AuthenticateStage):
    """allauth's, which knows that a provider's sign-in can be as good where the operator says so."""

    def _should_handle(self, request: HttpRequest) -> bool:
        records = get_authentication_records(request, self.login.user)
        is_provider_s = bool(records) and records[-1]["method"] == "socialaccount"
        if is_provider_s and settings.PROVIDER_COUNTS_AS_FACTOR:
            return False
        return bool(super()._should_handle(request))
