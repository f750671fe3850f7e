"""What a process says of its models, written so that it may be said again and again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now

from inference.domain.model_settings import ModelStatus
from inference.models import ModelReport
from inference.models.model_report import MAX_PROCESS_NAME_LENGTH

# Long after readers have passed over it: nobody asks then what a dead process said.
FORGET_AFTER_S = 600.0
MAX_CAUSE_LENGTH = 2000
_SAID = ("process_name", "state", "revision", "cause", "num_running", "memory_bytes", "seen_at")


@dataclass(frozen=True, slots=True)
class ServingProcess:
    """Who reports. `name` is for people: the machine and the process's number."""

    id: UUID
    name: str


def model_reports_write(*, process: ServingProcess, statuses: tuple[ModelStatus, ...]) -> None:
    """All that this process has to say now; of models that are not in `statuses` it says nothing any more."""
    reports = [
        ModelReport(
            process_id=process.id,
            process_name=process.name[:MAX_PROCESS_NAME_LENGTH],
            row_id=status.row_id,
            state=status.state.value,
            revision=status.revision,
            cause=status.cause.replace("\0", "")[:MAX_CAUSE_LENGTH],
            num_running=status.num_running,
            memory_bytes=status.memory_bytes,
            seen_at=Now(),
        )
        for status in sorted(statuses, key=lambda status: status.row_id)
    ]
    with transaction.atomic():
        ModelReport.objects.bulk_create(
            reports, update_conflicts=True, unique_fields=("process_id", "row"), update_fields=_SAID
        )
        said = [status.row_id for status in statuses]
        ModelReport.objects.filter(process_id=process.id).exclude(row_id__in=said).delete()
        ModelReport.objects.filter(seen_at__lt=Now() - timedelta(seconds=FORGET_AFTER_S)).delete()


def model_reports_end(*, process: ServingProcess) -> None:
    """This process serves no more."""
    ModelReport.objects.filter(process_id=process.id).delete()
