"""The Celery application: `celery -A skippy_site worker` and `… beat`."""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "skippy_site.settings")

app = Celery("skippy")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.autodiscover_tasks(["inference.usage", "inference.alerts"])
