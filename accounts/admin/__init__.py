"""Accounts in Django's admin: teams, users, their password links, and keys.

What allauth keeps of signing in (secrets, links to a provider) is changed by its pages and by commands, and
is in no list: its apps come before this one, so what they registered is taken out here.
"""

from allauth.account.models import EmailAddress, EmailConfirmation
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from django.contrib import admin

from accounts.admin.administrative_change import AdministrativeChangeAdmin
from accounts.admin.api_key import ApiKeyAdmin
from accounts.admin.password_link import PasswordLinkAdmin
from accounts.admin.team import TeamAdmin
from accounts.admin.user import AccountAdmin, RightsAdmin

__all__ = [
    "AccountAdmin",
    "AdministrativeChangeAdmin",
    "ApiKeyAdmin",
    "PasswordLinkAdmin",
    "RightsAdmin",
    "TeamAdmin",
]

for _model in (EmailAddress, EmailConfirmation, Authenticator, SocialAccount, SocialApp, SocialToken):
    if admin.site.is_registered(_model):
        admin.site.unregister(_model)
