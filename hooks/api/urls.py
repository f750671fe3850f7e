"""Paths of policies and webhooks under /api/. A trailing slash is accepted and redirected nowhere."""

from __future__ import annotations

from django.urls import re_path

from hooks.api.policies import (
    PoliciesView,
    PolicyChangesView,
    PolicyExamplesView,
    PolicyHistoryView,
    PolicyOrderView,
    PolicyView,
)
from hooks.api.replays import ReplayCancelView, ReplayResumeView, ReplaysView, ReplayView
from hooks.api.trial import PolicyTrialView
from hooks.api.webhooks import WebhookChangesView, WebhookHistoryView, WebhooksView, WebhookView

# As many digits as an id in the database can have.
_ID = r"[0-9]{1,18}"
_REPLAY = rf"hook-policies/(?P<policy_id>{_ID})/replays/(?P<replay_id>{_ID})"

urlpatterns = [
    re_path(r"^hook-policies/?$", PoliciesView.as_view()),
    re_path(r"^hook-policies/reorder/?$", PolicyOrderView.as_view()),
    re_path(r"^hook-policies/try/?$", PolicyTrialView.as_view()),
    re_path(r"^hook-policies/examples/?$", PolicyExamplesView.as_view()),
    re_path(r"^hook-policies/changes/?$", PolicyHistoryView.as_view()),
    re_path(rf"^hook-policies/(?P<policy_id>{_ID})/?$", PolicyView.as_view()),
    re_path(rf"^hook-policies/(?P<policy_id>{_ID})/changes/?$", PolicyChangesView.as_view()),
    re_path(rf"^hook-policies/(?P<policy_id>{_ID})/replays/?$", ReplaysView.as_view()),
    re_path(rf"^{_REPLAY}/?$", ReplayView.as_view()),
    re_path(rf"^{_REPLAY}/cancel/?$", ReplayCancelView.as_view()),
    re_path(rf"^{_REPLAY}/resume/?$", ReplayResumeView.as_view()),
    re_path(r"^webhooks/?$", WebhooksView.as_view()),
    re_path(r"^webhooks/changes/?$", WebhookHistoryView.as_view()),
    re_path(rf"^webhooks/(?P<webhook_id>{_ID})/?$", WebhookView.as_view()),
    re_path(rf"^webhooks/(?P<webhook_id>{_ID})/changes/?$", WebhookChangesView.as_view()),
]
