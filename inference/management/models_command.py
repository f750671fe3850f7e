"""Commands about models: what goes wrong is one sentence on stderr and exit status 1, not a traceback."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from accounts.management.accounts_command import AccountsCommand, instant
from inference.domain.errors import SkippyError
from inference.domain.model_settings import ModelState
from inference.model_rows.columns import settings_of
from inference.model_rows.selectors import model_names_dangling
from inference.model_rows.services import model_row_get
from inference.models import ModelRow

DEFAULT_WAIT_S = 300.0
_LOOK_EVERY_S = 0.25


class ModelsCommand(AccountsCommand):
    """Turns what services and selectors raise into Django's CommandError."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except SkippyError as error:
            raise CommandError(error.message) from None

    def warn_of_dangling_names(self) -> None:
        """Keys that are held to models which are not there open less than it seems."""
        names = model_names_dangling()
        if names:
            listed = ", ".join(map(repr, names))
            self.stderr.write(f"Keys, users or teams are held to models that there are not: {listed}.")

    def wait_for(self, row: ModelRow, wanted: ModelState, limit_s: float) -> ModelRow:
        """Until every process that serves says that it is so. Raises CommandError where one has failed, or
        after `limit_s`."""
        deadline = time.monotonic() + limit_s
        while True:
            found = model_row_get(row_id=row.pk)
            told = [report for report in found.fresh_reports if report.revision >= found.revision]
            for report in told:
                if report.state == ModelState.FAILED.value:
                    raise CommandError(f"{report.process_name}: {report.cause or 'it has failed'}")
            is_complete = bool(told) and len(told) == len(found.fresh_reports)
            if is_complete and all(report.state == wanted.value for report in told):
                return found
            if time.monotonic() >= deadline:
                states = ", ".join(f"{one.process_name}: {one.state}" for one in found.fresh_reports)
                raise CommandError(f"It is not {wanted.value} yet ({states or 'no process serves it'}).")
            time.sleep(_LOOK_EVERY_S)


def add_wait_argument(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--wait",
        nargs="?",
        type=float,
        const=DEFAULT_WAIT_S,
        metavar="SECONDS",
        help=f"until every process that serves has done it (at most so long; {DEFAULT_WAIT_S:.0f})",
    )


def model_summary(row: ModelRow) -> dict[str, object]:
    """What commands print of a model as JSON, by the names of /api/models."""
    settings = settings_of(row)
    return {
        "id": row.pk,
        "model_id": settings.id,
        "aliases": list(settings.aliases),
        "source": settings.source,
        "projector_source": settings.projector_source,
        "is_enabled": row.is_enabled,
        "is_default": settings.is_default,
        "load_policy": settings.load_policy.value,
        "wants_loaded": settings.wants_loaded,
        "idle_unload_s": settings.idle_unload_s,
        "engine": dict(settings.engine),
        "admission": dict(settings.admission),
        "chat_defaults": dict(settings.chat_defaults),
        "completion_defaults": dict(settings.completion_defaults),
        "has_embeddings": settings.has_embeddings,
        "speculation": {
            "mode": settings.speculation.mode.value,
            "max_draft_tokens": settings.speculation.max_draft_tokens,
            "allows_requests": settings.speculation.allows_requests,
            "draft_source": settings.speculation.draft_source,
        },
        "adapters": [
            {"name": one.name, "source": one.source, "scale": one.scale, "is_default": one.is_default}
            for one in settings.adapters
        ],
        "access": {
            "is_open": settings.access.is_open,
            "team_ids": sorted(settings.access.team_ids),
            "key_ids": sorted(settings.access.key_ids),
        },
        "revision": settings.revision,
        "status": [report_summary(report) for report in row.fresh_reports],
    }


def report_summary(report: Any) -> dict[str, object]:
    """What one process says."""
    return {
        "process": report.process_name,
        "process_id": str(report.process_id),
        "state": report.state,
        "cause": report.cause,
        "revision": report.revision,
        "num_running": report.num_running,
        "memory_bytes": report.memory_bytes,
        "seen_at": instant(report.seen_at),
    }
