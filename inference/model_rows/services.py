"""Changing the rows of models: what they say, and whether they should be in memory.

Every door (API, admin, commands, first start) comes through here. Writers take turns (`model_rows_changing`),
so that names, the one default and revisions hold together; processes that serve see a change within a few
seconds. What is refused is an InvalidRequest or a Conflict that names the field.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from django.db import connection, transaction
from django.utils import timezone

from accounts.models import ApiKey, Team
from inference.domain.adapters import AdapterSettings
from inference.domain.errors import Conflict, ModelNotFound
from inference.domain.model_settings import ModelSettings, ModelState
from inference.model_rows.checks import model_checks
from inference.model_rows.columns import WRITTEN_COLUMNS, adapter_of, settings_of, write_columns
from inference.model_rows.selectors import model_rows_with_reports
from inference.model_rows.validation import check_settings, invalid
from inference.models import ModelAdapter, ModelName, ModelRow

# Any number that no other lock of this database uses: "models" in ASCII.
_ROWS_LOCK = 0x6D6F64656C73


@contextmanager
def model_rows_changing() -> Iterator[None]:
    """A transaction in which nobody else changes rows of models. Whoever reads a row in order to change it
    reads it inside."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_ROWS_LOCK])
        yield


def model_row_get(*, row_id: int) -> ModelRow:
    """As it is now, with all that belongs to it. Raises ModelNotFound."""
    found = model_rows_with_reports().filter(pk=row_id).first()
    if found is None:
        raise ModelNotFound("There is no such model.", param="model")
    return found


def model_check(*, settings: ModelSettings, row_id: int | None) -> None:
    """Whether this could be written now, as a new row (`row_id` None) or over that one; for forms, which show
    what is wrong before anything is done. Raises InvalidRequest, Conflict and ModelNotFound."""
    row = None if row_id is None else model_row_get(row_id=row_id)
    check_settings(settings, checks=model_checks(), before=None if row is None else settings_of(row))
    _check_names_free(row or ModelRow(), settings)
    _check_access(settings)


def model_create(*, settings: ModelSettings, is_enabled: bool = True) -> ModelRow:
    """A new row; its id, revision and `wants_loaded` are not taken from `settings`."""
    with model_rows_changing():
        check_settings(settings, checks=model_checks(), before=None)
        row = ModelRow()
        _write(row, settings, is_enabled=is_enabled)
        return model_row_get(row_id=row.pk)


def model_update(*, row_id: int, settings: ModelSettings, is_enabled: bool) -> ModelRow:
    """Make a row say what `settings` say. Nothing happens where it does already. Raises ModelNotFound."""
    with model_rows_changing():
        row = model_row_get(row_id=row_id)
        before = settings_of(row)
        wanted = replace(settings, row_id=row.pk, revision=row.revision, wants_loaded=row.wants_loaded)
        check_settings(wanted, checks=model_checks(), before=before)
        if wanted == before and is_enabled == row.is_enabled:
            return row
        row.revision += 1
        _write(row, wanted, is_enabled=is_enabled)
        return model_row_get(row_id=row_id)


def model_delete(*, row_id: int) -> None:
    """Remove a row for ever: whoever serves it unloads it, and its names are free. Raises ModelNotFound."""
    with model_rows_changing():
        row = model_row_get(row_id=row_id)
        for adapter in row.adapters.all():
            adapter.delete()  # one by one, for the history of changes
        row.delete()


def model_wants_loaded(*, row_id: int, wants_loaded: bool | None) -> ModelRow:
    """An operator's last word: load it, unload it, or (None) do as its policy says.

    May be repeated. Where a process has failed to load it, saying it again makes that process try again.
    """
    with model_rows_changing():
        row = model_row_get(row_id=row_id)
        if wants_loaded and not row.is_enabled:
            raise Conflict("This model is not enabled: enable it first.", param="is_enabled", code="conflict")
        has_failed = any(report.state == ModelState.FAILED.value for report in row.fresh_reports)
        if row.wants_loaded is wants_loaded and not (wants_loaded and has_failed):
            return row
        row.wants_loaded = wants_loaded
        row.revision += 1
        row.updated_at = timezone.now()
        row.save(update_fields=["wants_loaded", "revision", "updated_at"])
        return model_row_get(row_id=row_id)


def _write(row: ModelRow, settings: ModelSettings, *, is_enabled: bool) -> None:
    _check_names_free(row, settings)
    _check_access(settings)
    if settings.is_default:
        for other in ModelRow.objects.filter(is_default=True).exclude(pk=row.pk):
            other.is_default = False
            other.revision += 1
            other.updated_at = timezone.now()
            other.save(update_fields=["is_default", "revision", "updated_at"])
    write_columns(row, settings, is_enabled=is_enabled)
    row.updated_at = timezone.now()
    if row.pk is None:
        row.save(force_insert=True)
    else:
        row.save(update_fields=[*WRITTEN_COLUMNS, "revision", "updated_at"])
    row.names.exclude(name__in=_names(settings)).delete()
    for name in _names(settings):
        ModelName.objects.get_or_create(name=name, defaults={"row": row})
    row.teams.set(settings.access.team_ids)
    row.keys.set(settings.access.key_ids)
    _write_adapters(row, settings.adapters)


def _write_adapters(row: ModelRow, wanted: tuple[AdapterSettings, ...]) -> None:
    there = {adapter.name: adapter for adapter in ModelAdapter.objects.filter(row=row)}
    for name in there.keys() - {adapter.name for adapter in wanted}:
        there.pop(name).delete()
    for settings in wanted:
        adapter = there.get(settings.name) or ModelAdapter(row=row, name=settings.name)
        if adapter.pk is not None and adapter_of(adapter) == settings:
            continue
        adapter.source, adapter.scale = settings.source, settings.scale
        adapter.is_default = settings.is_default
        adapter.save()


def _names(settings: ModelSettings) -> tuple[str, ...]:
    return (settings.id, *settings.aliases)


def _check_names_free(row: ModelRow, settings: ModelSettings) -> None:
    taken = ModelName.objects.filter(name__in=_names(settings)).exclude(row_id=row.pk)
    for name in taken.order_by("name").values_list("name", flat=True)[:1]:
        param = "model_id" if name == settings.id else "aliases"
        raise Conflict(
            f"Invalid '{param}': another model has the name {name!r}.", param=param, code="conflict"
        )


def _check_access(settings: ModelSettings) -> None:
    """A team or key that there is not, or no more."""
    for param, ids, table in (
        ("access.team_ids", settings.access.team_ids, Team),
        ("access.key_ids", settings.access.key_ids, ApiKey),
    ):
        missing = ids - set(table.objects.filter(pk__in=ids).values_list("pk", flat=True))
        for one in sorted(missing):
            raise invalid(param, f"there is none with the id {one}")
