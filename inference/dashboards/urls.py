"""Paths of the console's own pages; those of one's own account are in accounts.sign_in.urls."""

from __future__ import annotations

from django.urls import path

from accounts.sign_in.views import sign_in, sign_out
from inference.dashboards import decisions, downloads, keys, maintenance, requests, views
from inference.dashboards.live import views as live_views
from inference.dashboards.playground import views as playground_views
from inference.dashboards.welcome import welcome

app_name = "console"
urlpatterns = [
    path("", views.usage, name="usage"),
    path("usage.csv", downloads.usage_csv, name="usage_csv"),
    path("usage/<slug:kind>/", views.parts, name="parts"),
    path("usage/<slug:kind>.csv", downloads.parts_csv, name="parts_csv"),
    path("requests/", requests.log, name="requests"),
    path("requests.csv", downloads.log_csv, name="requests_csv"),
    path("requests/<uuid:record_id>/", requests.story, name="request"),
    path("live/", live_views.live, name="live"),
    path("live/<uuid:record_id>/cancel", live_views.cancel, name="live_cancel"),
    path("decisions/", decisions.decisions, name="decisions"),
    path("keys/", keys.keys, name="keys"),
    path("keys/<int:key_id>/revoke/", keys.revoke, name="key_revoke"),
    path("keys/<int:key_id>/replace/", keys.replace, name="key_replace"),
    path("maintenance/", maintenance.maintenance, name="maintenance"),
    path("playground/", playground_views.playground, name="playground"),
    path("playground/pass/", playground_views.issue_pass, name="playground_pass"),
    path("start/", views.start, name="start"),
    path("welcome/<str:token>/", welcome, name="welcome"),
    # The door, under the console's names for it.
    path("login/", sign_in, name="login"),
    path("logout/", sign_out, name="logout"),
]
