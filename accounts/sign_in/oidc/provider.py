"""allauth's provider for OpenID Connect, which also checks signature, nonce and issuer."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from hashlib import sha256
from secrets import token_urlsafe
from typing import Any

from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.providers.base import AuthProcess
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.http import HttpRequest

from accounts.sign_in.oidc.id_token import IdTokenRefused, id_token_read

_log = logging.getLogger(__name__)
NONCE = "skippy_oidc_nonce"
_ADDRESS = ("email", "email_verified")


class OidcAdapter(OpenIDConnectOAuth2Adapter):
    """One sign-in's talk with the provider."""

    @property
    def openid_config(self) -> dict[str, Any]:
        config: dict[str, Any] = super().openid_config
        if config.get("issuer") != self.get_provider().app.settings["issuer"]:
            raise OAuth2Error("the provider calls itself otherwise than SKIPPY_OIDC_ISSUER says")
        return config

    def complete_login(self, request: HttpRequest, app: Any, token: Any, **kwargs: Any) -> Any:
        claims = self._claims(request, app, kwargs["response"].get("id_token"))
        data = {"id_token": claims}
        if self.openid_config.get("userinfo_endpoint"):
            told = self._fetch_user_info(token.token)
            if told.get("sub") != claims["sub"]:
                raise OAuth2Error("the provider told of somebody else")
            data["userinfo"] = _together(claims, told)
        return self.get_provider().sociallogin_from_response(request, data)

    def _claims(self, request: HttpRequest, app: Any, id_token: Any) -> dict[str, Any]:
        if not isinstance(id_token, str):
            raise OAuth2Error("the provider sent no ID token")
        with get_adapter().get_requests_session() as session:
            answer = session.get(self.openid_config["jwks_uri"])
            answer.raise_for_status()
            keys = answer.json()
        try:
            return id_token_read(
                id_token,
                keys,
                issuer=self.openid_config["issuer"],
                client_id=app.client_id,
                nonce=request.session.pop(NONCE, ""),
            )
        except IdTokenRefused as problem:
            raise OAuth2Error(f"the ID token is refused: {problem}") from None


def _together(signed: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    """What was signed counts more than what was merely told. That an address is verified is said of the
    address beside it, so the two come from one of them; an address of which neither says it is none."""
    found = {name: value for name, value in {**told, **signed}.items() if name not in _ADDRESS}
    for source in (signed, told):
        if all(source.get(name) is not None for name in _ADDRESS):
            return {**found, **{name: source[name] for name in _ADDRESS}}
    return found


class OidcProvider(OpenIDConnectProvider):
    oauth2_adapter_class = OidcAdapter
    supports_token_authentication = False

    def extract_uid(self, data: Any) -> str:
        """A subject is somebody only together with who names him (OpenID Connect Core 1.0, 5.7): another
        provider's `1` must not get this one's links. Hashed, since both may be longer than the column."""
        subject = super().extract_uid(data)
        if not subject:
            raise ValueError("the provider names nobody")
        return sha256(f"{self.app.settings['issuer']}\0{subject}".encode()).hexdigest()

    def get_redirect_from_request_kwargs(self, request: HttpRequest) -> dict[str, Any]:
        """Nothing of scope, parameters or process is taken from the link that led here."""
        found = super().get_redirect_from_request_kwargs(request)
        nonce = request.session[NONCE] = token_urlsafe(32)
        kept = {name: found[name] for name in ("next_url",) if name in found}
        return {
            **kept,
            "process": AuthProcess.LOGIN,
            "auth_params": {"nonce": nonce},
            "scope": self.get_scope(),
        }
