"""Accounts in Django's admin: teams, users and keys."""

from accounts.admin.administrative_change import AdministrativeChangeAdmin
from accounts.admin.api_key import ApiKeyAdmin
from accounts.admin.team import TeamAdmin
from accounts.admin.user import AccountAdmin, RightsAdmin

__all__ = ["AccountAdmin", "AdministrativeChangeAdmin", "ApiKeyAdmin", "RightsAdmin", "TeamAdmin"]
