"""The settings of signing in: who needs a second factor, and the provider that may send people (OIDC).

A part of the environment (env.py), in a file of its own because there are many.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from accounts.roles import Role
from skippy_site.door_settings import DoorSettings
from skippy_site.watching_settings import check_http_url, parts_of

PROVIDER_TIMEOUT_S = 5
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class SignInSettings(DoorSettings, frozen=True, kw_only=True):
    """See the module. (Structs have one base each, so the parts of the environment stand in a row.)"""

    require_mfa: Annotated[
        Literal["off", "administrators", "staff", "all"],
        Meta(
            description="who must have a second factor before a page of console or admin opens: nobody, "
            "administrators (with superusers), all staff, everybody (docs/console.md)"
        ),
    ] = "off"
    oidc_issuer: Annotated[
        str,
        Meta(
            description="issuer of the OpenID Connect provider by which people may sign in, as it names "
            "itself, such as https://login.example.com/realms/us; empty: none"
        ),
    ] = ""
    oidc_client_id: Annotated[str, Meta(description="what this service is called there")] = ""
    oidc_client_secret: Annotated[str, Meta(description="its secret there")] = ""
    oidc_client_secret_file: Annotated[
        str, Meta(description="a file with that secret, in place of the variable")
    ] = ""
    oidc_name: Annotated[str, Meta(max_length=40, description="what the button for it is called")] = (
        "single sign-on"
    )
    oidc_scopes: Annotated[
        str, Meta(description="comma-separated scopes to ask for besides openid, profile and email")
    ] = ""
    oidc_domains: Annotated[
        str,
        Meta(
            description="comma-separated domains; only people with a verified e-mail address in one of them "
            "come in. Empty: all whom the provider sends"
        ),
    ] = ""
    oidc_links_by: Annotated[
        Literal["nothing", "email", "username"],
        Meta(
            description="users who are here already are found by their verified e-mail address, or by "
            "`preferred_username`, the first time; superusers never. nothing: not at all. Read "
            "docs/console.md first: who gives names there gives accounts here"
        ),
    ] = "nothing"
    oidc_creates_users: Annotated[
        bool, Meta(description="people who are not here yet become users, as key owners")
    ] = False
    oidc_groups_claim: Annotated[
        str, Meta(min_length=1, description="the claim that lists somebody's groups")
    ] = "groups"
    oidc_roles: Annotated[
        str,
        Meta(
            description='roles by group, as JSON: {"skippy-admins": "administrator"}. Set at each sign-in, '
            "the highest one; key owner where none fits. Empty: roles are given here alone"
        ),
    ] = ""
    oidc_counts_as_mfa: Annotated[
        bool,
        Meta(description="the provider has asked for a second factor, so none is asked for here"),
    ] = False

    def check_sign_in(self) -> None:
        """Raises ValueError with one line that names the variable at fault."""
        _ = self.roles_by_group
        if not self.oidc_issuer:
            return
        check_http_url("SKIPPY_OIDC_ISSUER", self.oidc_issuer)
        parts = urlsplit(self.oidc_issuer)
        if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
            raise ValueError("SKIPPY_OIDC_ISSUER: needs https, except on this machine")
        if not self.oidc_client_id:
            raise ValueError("SKIPPY_OIDC_CLIENT_ID: needed with the issuer")
        if self.oidc_client_secret and self.oidc_client_secret_file:
            raise ValueError("SKIPPY_OIDC_CLIENT_SECRET_FILE: the secret is given already")
        _ = self.provider_secret

    @property
    def provider_secret(self) -> str:
        """Empty for a public client, which has PKCE alone."""
        if not self.oidc_client_secret_file:
            return self.oidc_client_secret
        try:
            return Path(self.oidc_client_secret_file).read_text("utf-8").strip()
        except (OSError, UnicodeError):
            raise ValueError("SKIPPY_OIDC_CLIENT_SECRET_FILE: no text file that can be read") from None

    @property
    def roles_by_group(self) -> Mapping[str, Role]:
        if not self.oidc_roles:
            return {}
        try:
            return msgspec.json.decode(self.oidc_roles, type=dict[str, Role])
        except msgspec.DecodeError:
            names = ", ".join(role.value for role in Role)
            raise ValueError(f"SKIPPY_OIDC_ROLES: not JSON of groups and roles ({names})") from None

    @property
    def provider_domains(self) -> tuple[str, ...]:
        return tuple(domain.lower().lstrip("@") for domain in parts_of(self.oidc_domains))


def sign_in_settings(environment: SignInSettings) -> dict[str, Any]:
    """What Django's settings have of it."""
    has_provider = bool(environment.oidc_issuer)
    app = {
        "provider_id": "oidc",
        "name": environment.oidc_name,
        "client_id": environment.oidc_client_id,
        "secret": environment.provider_secret if has_provider else "",
        "settings": {
            "server_url": environment.oidc_issuer.rstrip("/"),
            "issuer": environment.oidc_issuer,
            "oauth_pkce_enabled": True,
            "scope": ["openid", "profile", "email", *parts_of(environment.oidc_scopes)],
        },
    }
    return {
        # Signing in is a page of the console with allauth behind it; what of allauth is in no urls.py is
        # not there. Its own limits count in a cache; ours (accounts.sign_in.attempts) in the database.
        "AUTHENTICATION_BACKENDS": ["accounts.sign_in.passwords.PasswordBackend"],
        "ACCOUNT_ADAPTER": "accounts.sign_in.adapter.SignInAdapter",
        "ACCOUNT_EMAIL_VERIFICATION": "none",
        "ACCOUNT_FORMS": {"login": "accounts.sign_in.forms.SignInForm"},
        "ACCOUNT_LOGIN_METHODS": {"username"},
        "ACCOUNT_RATE_LIMITS": False,
        "ACCOUNT_REAUTHENTICATION_METHODS": ["password", "mfa"],
        "ACCOUNT_SESSION_REMEMBER": True,
        "ACCOUNT_SIGNUP_FIELDS": ["username*", "password1*"],
        "MFA_ADAPTER": "accounts.sign_in.adapter.SecondFactorAdapter",
        "MFA_FORMS": {
            "authenticate": "accounts.sign_in.forms.SignInCodeForm",
            "reauthenticate": "accounts.sign_in.forms.CodeAgainForm",
            "activate_totp": "accounts.sign_in.forms.SetUpForm",
        },
        "MFA_RATE_LIMITS": False,
        "MFA_RECOVERY_CODES_SHOW_ONCE": True,
        "SOCIALACCOUNT_ADAPTER": "accounts.sign_in.oidc.adapter.ProviderAdapter",
        "SOCIALACCOUNT_REQUESTS_TIMEOUT": PROVIDER_TIMEOUT_S,
        "SOCIALACCOUNT_STORE_TOKENS": False,
        "SOCIALACCOUNT_PROVIDERS": {
            "openid_connect": {
                "provider_class": "accounts.sign_in.oidc.provider.OidcProvider",
                "APPS": [app] if has_provider else [],
            }
        },
        "SECOND_FACTOR_BOX": "skippy_site.second_factors.FactorBox",
        "SECOND_FACTOR_RULE": environment.require_mfa,
        "PROVIDER_NAME": environment.oidc_name if has_provider else "",
        "PROVIDER_LINKS_BY": environment.oidc_links_by if has_provider else "nothing",
        "PROVIDER_CREATES_USERS": environment.oidc_creates_users,
        "PROVIDER_DOMAINS": environment.provider_domains,
        "PROVIDER_GROUPS_CLAIM": environment.oidc_groups_claim,
        "PROVIDER_ROLES": environment.roles_by_group,
        "PROVIDER_COUNTS_AS_FACTOR": environment.oidc_counts_as_mfa,
    }
