"""Accounts in Django's admin: teams, users, their password links, and keys."""

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
