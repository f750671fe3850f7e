"""Paths of signing in and of one's own account. What of allauth is not named here cannot be reached; the
names are those by which its code finds them."""

from __future__ import annotations

from django.urls import path

from accounts.sign_in import account_pages, views
from accounts.sign_in.oidc import views as oidc

urlpatterns = [
    path("login/", views.sign_in, name="account_login"),
    path("login/code/", views.code, name="mfa_authenticate"),
    path("login/provider/", oidc.to_provider, name="openid_connect_login"),
    path(
        "login/provider/back/",
        oidc.from_provider,
        {"provider_id": oidc.PROVIDER_ID},
        name="openid_connect_callback",
    ),
    path("logout/", views.sign_out, name="account_logout"),
    path("account/", account_pages.account, name="account"),
    path("account/password/", account_pages.password, name="account_change_password"),
    path("account/email/", account_pages.email, name="account_change_email"),
    path("account/again/", views.password_again, name="account_reauthenticate"),
    path("account/again/code/", views.code_again, name="mfa_reauthenticate"),
    path("account/security/", account_pages.security, name="mfa_index"),
    path("account/security/set-up/", account_pages.set_up, name="mfa_activate_totp"),
    path("account/security/remove/", account_pages.remove, name="mfa_deactivate_totp"),
    path("account/security/codes/", account_pages.codes, name="mfa_view_recovery_codes"),
    path("account/security/codes/new/", account_pages.new_codes, name="mfa_generate_recovery_codes"),
]
