"""What each process that serves says of each model."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now

from inference.domain.model_settings import ModelState
from inference.models.model_row import ModelRow

MAX_PROCESS_NAME_LENGTH = 300
_STATES = [(state.value, state.value) for state in ModelState]


class ModelReport(models.Model):
    """One model in one process, as that process said it last (at `seen_at`, by the database's clock).

    A process that is gone stops saying anything; readers pass over what is old. The row may have been
    deleted while the process still unloads it.
    """

    id = models.BigAutoField(primary_key=True)
    process_id = models.UUIDField("process id")
    process_name = models.CharField("process", max_length=MAX_PROCESS_NAME_LENGTH)
    row = models.ForeignKey(
        ModelRow, on_delete=models.CASCADE, related_name="reports", db_constraint=False, verbose_name="model"
    )
    state = models.CharField("state", max_length=16, choices=_STATES)
    revision = models.BigIntegerField("revision")
    cause = models.TextField("cause", blank=True)
    num_running = models.IntegerField("running")
    memory_bytes = models.BigIntegerField("memory")
    seen_at = models.DateTimeField("said", db_default=Now())

    class Meta:
        verbose_name = "status of a model"
        verbose_name_plural = "status of models"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["process_id", "row"], name="model_report_once"),
            models.CheckConstraint(
                condition=models.Q(state__in=[state.value for state in ModelState]),
                name="model_report_state_known",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.process_name}: {self.state}"
