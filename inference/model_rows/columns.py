"""From a row's columns to the words that whoever serves the model reads, and back."""

from __future__ import annotations

from inference.domain.adapters import AdapterSettings
from inference.domain.model_settings import LoadPolicy, ModelAccess, ModelSettings
from inference.domain.speculation import SpeculationMode, SpeculationSettings
from inference.models import ModelAdapter, ModelRow

# All that model_update writes; teams, keys and adapters have tables of their own.
WRITTEN_COLUMNS = (
    "model_id",
    "aliases",
    "source",
    "projector_source",
    "is_enabled",
    "is_default",
    "load_policy",
    "idle_unload_s",
    "engine",
    "admission",
    "chat_defaults",
    "completion_defaults",
    "has_embeddings",
    "speculation_mode",
    "max_draft_tokens",
    "allows_speculation_requests",
    "draft_source",
    "is_open",
)


def settings_of(row: ModelRow) -> ModelSettings:
    """What a row of `model_rows()` says, which has its adapters, teams and keys along."""
    return ModelSettings(
        row_id=row.pk,
        revision=row.revision,
        id=row.model_id,
        aliases=tuple(row.aliases),
        source=row.source,
        projector_source=row.projector_source,
        is_default=row.is_default,
        load_policy=LoadPolicy(row.load_policy),
        wants_loaded=row.wants_loaded,
        idle_unload_s=row.idle_unload_s,
        engine=row.engine,
        admission=row.admission,
        chat_defaults=row.chat_defaults,
        completion_defaults=row.completion_defaults,
        has_embeddings=row.has_embeddings,
        adapters=tuple(
            adapter_of(adapter) for adapter in sorted(row.adapters.all(), key=lambda adapter: adapter.pk)
        ),
        speculation=SpeculationSettings(
            mode=SpeculationMode(row.speculation_mode),
            max_draft_tokens=row.max_draft_tokens,
            allows_requests=row.allows_speculation_requests,
            draft_source=row.draft_source,
        ),
        access=ModelAccess(
            is_open=row.is_open, team_ids=frozenset(row.team_ids), key_ids=frozenset(row.key_ids)
        ),
    )


def adapter_of(adapter: ModelAdapter) -> AdapterSettings:
    return AdapterSettings(
        name=adapter.name, source=adapter.source, scale=adapter.scale, is_default=adapter.is_default
    )


def write_columns(row: ModelRow, settings: ModelSettings, *, is_enabled: bool) -> None:
    """Put what `settings` say into the row's own columns; not saved."""
    row.model_id = settings.id
    row.aliases = list(settings.aliases)
    row.source = settings.source
    row.projector_source = settings.projector_source
    row.is_enabled = is_enabled
    row.is_default = settings.is_default
    row.load_policy = settings.load_policy.value
    row.idle_unload_s = settings.idle_unload_s
    row.engine = dict(settings.engine)
    row.admission = dict(settings.admission)
    row.chat_defaults = dict(settings.chat_defaults)
    row.completion_defaults = dict(settings.completion_defaults)
    row.has_embeddings = settings.has_embeddings
    row.speculation_mode = settings.speculation.mode.value
    row.max_draft_tokens = settings.speculation.max_draft_tokens
    row.allows_speculation_requests = settings.speculation.allows_requests
    row.draft_source = settings.speculation.draft_source
    row.is_open = settings.access.is_open
