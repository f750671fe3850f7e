"""Reading the rows of models, each with all that belongs to it in a number of queries that does not grow."""

from __future__ import annotations

from datetime import timedelta

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import OuterRef, Prefetch, QuerySet
from django.db.models.functions import Now

from accounts.models import ApiKey, Team, UserPolicy
from inference.domain.errors import ModelNotFound
from inference.domain.model import canonical_model_id
from inference.domain.model_settings import ModelSettings
from inference.model_rows.columns import settings_of
from inference.models import ModelName, ModelReport, ModelRow

# A process reports every few seconds; one that did not for so long is gone, or hangs.
STALE_AFTER_S = 30.0
MAX_SHOWN_NAME = 100


def model_rows() -> QuerySet[ModelRow]:
    """Rows with `team_ids`, `key_ids` and adapters along, in the order in which they were added."""
    teams = ModelRow.teams.through.objects.filter(modelrow_id=OuterRef("pk")).order_by("team_id")
    keys = ModelRow.keys.through.objects.filter(modelrow_id=OuterRef("pk")).order_by("apikey_id")
    return (
        ModelRow.objects.annotate(
            team_ids=ArraySubquery(teams.values("team_id")), key_ids=ArraySubquery(keys.values("apikey_id"))
        )
        .prefetch_related("adapters")
        .order_by("pk")
    )


def model_rows_with_reports() -> QuerySet[ModelRow]:
    """The same with `fresh_reports`: what the processes that live say of each."""
    return model_rows().prefetch_related(
        Prefetch("reports", queryset=model_reports_fresh(), to_attr="fresh_reports")
    )


def model_reports_fresh() -> QuerySet[ModelReport]:
    """What processes that live say, by process."""
    return ModelReport.objects.filter(seen_at__gt=Now() - timedelta(seconds=STALE_AFTER_S)).order_by(
        "process_name", "process_id"
    )


def model_settings_read() -> tuple[ModelSettings, ...]:
    """All models that are enabled, in the order in which they were added."""
    return tuple(settings_of(row) for row in model_rows().filter(is_enabled=True))


def model_row_named(name: str) -> ModelRow:
    """By id or alias, as clients may write them. Raises ModelNotFound."""
    # What the database could not compare is no name either.
    wanted = canonical_model_id(name).encode("utf-8", "replace").decode().replace("\0", "?")
    found = model_rows_with_reports().filter(names__name=wanted).first()
    if found is None:
        shown = "".join(c if c.isprintable() else "?" for c in name[:MAX_SHOWN_NAME])
        raise ModelNotFound(f"There is no model {shown!r}.", param="model")
    return found


def model_names_dangling() -> list[str]:
    """Names to which keys, users or teams are held and which no model has: those open less than it seems."""
    named: set[str] = set()
    for rows in (ApiKey.objects.filter(revoked_at=None), UserPolicy.objects.all(), Team.objects.all()):
        for names in rows.exclude(allowed_models=[]).values_list("allowed_models", flat=True):
            named.update(names)
    known = set(
        ModelName.objects.filter(name__in={canonical_model_id(name) for name in named}).values_list(
            "name", flat=True
        )
    )
    return sorted(name for name in named if canonical_model_id(name) not in known)
