"""Paths of usage under /api/. A trailing slash is accepted and redirected nowhere."""

from __future__ import annotations

from django.urls import re_path

from inference.usage_api.records import RecordsView
from inference.usage_api.usage import UsageView

urlpatterns = [
    re_path(r"^records/?$", RecordsView.as_view()),
    re_path(r"^usage/?$", UsageView.as_view()),
]
