"""Paths of models and their prices under /api/. A trailing slash is accepted and redirected nowhere."""

from __future__ import annotations

from django.urls import re_path

from inference.models_api.maintenance import MaintenanceView
from inference.models_api.models import (
    ModelLoadView,
    ModelStatusView,
    ModelsView,
    ModelUnloadView,
    ModelView,
)
from inference.models_api.prices import PriceHistoryView, PricesView, PriceView

# As many digits as an id in the database can have.
_ID = r"[0-9]{1,18}"

urlpatterns = [
    re_path(r"^maintenance/?$", MaintenanceView.as_view()),
    re_path(r"^models/?$", ModelsView.as_view()),
    re_path(rf"^models/(?P<row_id>{_ID})/?$", ModelView.as_view()),
    re_path(rf"^models/(?P<row_id>{_ID})/status/?$", ModelStatusView.as_view()),
    re_path(rf"^models/(?P<row_id>{_ID})/load/?$", ModelLoadView.as_view()),
    re_path(rf"^models/(?P<row_id>{_ID})/unload/?$", ModelUnloadView.as_view()),
    re_path(r"^prices/?$", PricesView.as_view()),
    re_path(r"^prices/changes/?$", PriceHistoryView.as_view()),
    re_path(rf"^prices/(?P<price_id>{_ID})/?$", PriceView.as_view()),
]
