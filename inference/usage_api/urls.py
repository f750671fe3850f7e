"""Paths of usage, records and requests under /api/. A trailing slash is accepted and redirected nowhere."""

from __future__ import annotations

from django.urls import re_path

from inference.usage_api.records import RecordsView
from inference.usage_api.requests import LiveRequestsView, RequestCancellationView
from inference.usage_api.usage import UsageView

_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"

urlpatterns = [
    re_path(r"^records/?$", RecordsView.as_view()),
    re_path(r"^requests/?$", LiveRequestsView.as_view()),
    re_path(rf"^requests/(?P<record_id>{_UUID})/cancel/?$", RequestCancellationView.as_view()),
    re_path(r"^usage/?$", UsageView.as_view()),
]
