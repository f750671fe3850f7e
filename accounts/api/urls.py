"""Paths of accounts under /api/. A trailing slash is accepted everywhere and redirected nowhere."""

from __future__ import annotations

from django.urls import re_path

from accounts.api.changes import ChangesView
from accounts.api.keys import ApiKeyRotationView, ApiKeysView, ApiKeyView
from accounts.api.limit_use import ApiKeyLimitsView, TeamLimitsView, UserLimitsView
from accounts.api.password_links import PasswordLinksView, UserInvitationView, UserPasswordLinkView
from accounts.api.personal_data import UserErasureView, UserExportView
from accounts.api.teams import TeamsView, TeamView
from accounts.api.users import CallerView, UsersView, UserView

# As many digits as an id in the database can have.
_ID = r"[0-9]{1,18}"

urlpatterns = [
    re_path(r"^me/?$", CallerView.as_view()),
    re_path(r"^users/?$", UsersView.as_view()),
    re_path(rf"^users/(?P<user_id>{_ID})/?$", UserView.as_view()),
    re_path(rf"^users/(?P<user_id>{_ID})/limits/?$", UserLimitsView.as_view()),
    re_path(rf"^users/(?P<user_id>{_ID})/invitation/?$", UserInvitationView.as_view()),
    re_path(rf"^users/(?P<user_id>{_ID})/password-link/?$", UserPasswordLinkView.as_view()),
    re_path(r"^password-links/?$", PasswordLinksView.as_view()),
    re_path(rf"^users/(?P<user_id>{_ID})/export/?$", UserExportView.as_view()),
    re_path(rf"^users/(?P<user_id>{_ID})/erase/?$", UserErasureView.as_view()),
    re_path(r"^teams/?$", TeamsView.as_view()),
    re_path(rf"^teams/(?P<team_id>{_ID})/?$", TeamView.as_view()),
    re_path(rf"^teams/(?P<team_id>{_ID})/limits/?$", TeamLimitsView.as_view()),
    re_path(r"^keys/?$", ApiKeysView.as_view()),
    re_path(rf"^keys/(?P<key_id>{_ID})/?$", ApiKeyView.as_view()),
    re_path(rf"^keys/(?P<key_id>{_ID})/limits/?$", ApiKeyLimitsView.as_view()),
    re_path(rf"^keys/(?P<key_id>{_ID})/rotate/?$", ApiKeyRotationView.as_view()),
    re_path(r"^changes/?$", ChangesView.as_view()),
]
