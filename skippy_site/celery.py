"""The Celery application: `celery -A skippy_site worker` and `… beat`."""

from __future__ import annotations

import logging
import os

from celery import Celery
from celery.exceptions import OperationalError

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "skippy_site.settings")

app = Celery("skippy")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.autodiscover_tasks(["inference.usage", "inference.alerts"])

_SOON = {"max_retries": 1, "interval_start": 0, "interval_step": 0.1, "interval_max": 0.1}
_log = logging.getLogger(__name__)


def task_send(name: str, *arguments: int) -> bool:
    """Have a worker do a task, now or when there is one; False where the broker does not take it."""
    try:
        with app.connection_for_write() as connection:
            # Who asks waits for it: a broker that is away is tried once more, not for seconds.
            connection.transport_options = {**connection.transport_options, **_SOON}
            app.send_task(name, args=arguments, ignore_result=True, retry=False, connection=connection)
    except (OperationalError, OSError) as problem:
        _log.warning("the broker took no task: %s", type(problem).__name__)
        return False
    return True
