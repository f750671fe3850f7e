"""Models as the management API writes and reads them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from accounts.api.listing import IdField, PageQuery
from accounts.api.strict_serializer import StrictSerializer
from inference.domain.adapters import AdapterSettings
from inference.domain.model_settings import LoadPolicy, ModelAccess, ModelSettings, ModelState
from inference.domain.speculation import SpeculationMode, SpeculationSettings
from inference.model_rows.columns import settings_of
from inference.models import ModelRow
from inference.models.model_row import MAX_ALIASES, MAX_MODEL_ID_LENGTH

MAX_GRANTS = 1000


class ModelNameField(serializers.CharField):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(trim_whitespace=False, **kwargs)


class AdapterSerializer(StrictSerializer):
    name = ModelNameField()
    source = ModelNameField()
    scale = serializers.FloatField(default=1.0)
    is_default = serializers.BooleanField(default=False, help_text="applies where a request names none")


class SpeculationSerializer(StrictSerializer):
    """In a change, what is left out stays as it is."""

    mode = serializers.ChoiceField(choices=[mode.value for mode in SpeculationMode], required=False)
    max_draft_tokens = serializers.IntegerField(required=False)
    allows_requests = serializers.BooleanField(required=False)
    draft_source = ModelNameField(allow_blank=True, required=False)

    def to_representation(self, value: SpeculationSettings) -> Any:
        return {
            "mode": value.mode.value,
            "max_draft_tokens": value.max_draft_tokens,
            "allows_requests": value.allows_requests,
            "draft_source": value.draft_source,
        }


class AccessSerializer(StrictSerializer):
    """Who may use a model, beside what keys allow. In a change, what is left out stays as it is."""

    is_open = serializers.BooleanField(required=False, help_text="to everybody")
    team_ids = serializers.ListField(child=IdField(), max_length=MAX_GRANTS, required=False)
    key_ids = serializers.ListField(child=IdField(), max_length=MAX_GRANTS, required=False)

    def to_representation(self, value: ModelAccess) -> Any:
        return {
            "is_open": value.is_open,
            "team_ids": sorted(value.team_ids),
            "key_ids": sorted(value.key_ids),
        }


class StatusSerializer(serializers.Serializer):
    """What one process says of a model. `cause` may name files and sizes."""

    process = serializers.CharField(source="process_name")
    process_id = serializers.UUIDField()
    state = serializers.ChoiceField(choices=[state.value for state in ModelState])
    cause = serializers.CharField()
    revision = serializers.IntegerField(help_text="the row's revision that it goes by")
    num_running = serializers.IntegerField()
    memory_bytes = serializers.IntegerField()
    seen_at = serializers.DateTimeField()


class ModelSerializer(serializers.Serializer):
    """A row with all that belongs to it; `model_rows_with_reports` has it along."""

    id = serializers.IntegerField()
    model_id = serializers.CharField(help_text="what clients send as `model`")
    aliases = serializers.ListField(child=serializers.CharField())
    source = serializers.CharField()
    projector_source = serializers.CharField()
    is_enabled = serializers.BooleanField()
    is_default = serializers.BooleanField()
    load_policy = serializers.ChoiceField(choices=[policy.value for policy in LoadPolicy])
    wants_loaded = serializers.BooleanField(allow_null=True)
    idle_unload_s = serializers.FloatField()
    engine = serializers.DictField()
    admission = serializers.DictField()
    chat_defaults = serializers.DictField()
    completion_defaults = serializers.DictField()
    has_embeddings = serializers.BooleanField()
    speculation = serializers.SerializerMethodField()
    adapters = serializers.SerializerMethodField()
    access = serializers.SerializerMethodField()
    revision = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()
    status = StatusSerializer(many=True, source="fresh_reports")

    @extend_schema_field(SpeculationSerializer())
    def get_speculation(self, row: ModelRow) -> Any:
        return SpeculationSerializer(settings_of(row).speculation).data

    @extend_schema_field(AdapterSerializer(many=True))
    def get_adapters(self, row: ModelRow) -> Any:
        return AdapterSerializer(settings_of(row).adapters, many=True).data

    @extend_schema_field(AccessSerializer())
    def get_access(self, row: ModelRow) -> Any:
        return AccessSerializer(settings_of(row).access).data


class ModelStatusSerializer(serializers.Serializer):
    """How it is with one model: what was wanted last, and what each process says."""

    id = serializers.IntegerField()
    model_id = serializers.CharField()
    wants_loaded = serializers.BooleanField(allow_null=True)
    revision = serializers.IntegerField()
    status = StatusSerializer(many=True, source="fresh_reports")


class ModelChange(StrictSerializer):
    """What is left out stays as it is; lists and objects of settings are replaced as a whole."""

    model_id = ModelNameField(required=False)
    aliases = serializers.ListField(child=ModelNameField(), max_length=2 * MAX_ALIASES, required=False)
    source = ModelNameField(required=False, help_text="a GGUF file's path, or hf:org/repo/file.gguf")
    projector_source = ModelNameField(allow_blank=True, required=False)
    is_enabled = serializers.BooleanField(required=False)
    is_default = serializers.BooleanField(required=False)
    load_policy = serializers.ChoiceField(choices=[policy.value for policy in LoadPolicy], required=False)
    wants_loaded = serializers.BooleanField(
        allow_null=True, required=False, help_text="an operator's last word; null: as load_policy says"
    )
    idle_unload_s = serializers.FloatField(required=False, help_text="0: never")
    engine = serializers.DictField(
        required=False, help_text="settings that differ from the service's own, by their names in lower case"
    )
    admission = serializers.DictField(
        required=False, help_text="the same for who may start and wait: queue, adaptive_concurrency, …"
    )
    chat_defaults = serializers.DictField(required=False)
    completion_defaults = serializers.DictField(required=False)
    has_embeddings = serializers.BooleanField(required=False)
    speculation = SpeculationSerializer(required=False)
    adapters = AdapterSerializer(many=True, required=False)
    access = AccessSerializer(required=False)


class ModelRequest(ModelChange):
    """A model to be added."""

    model_id = ModelNameField()
    source = ModelNameField(help_text="a GGUF file's path, or hf:org/repo/file.gguf")


class ModelQuery(PageQuery):
    name = serializers.CharField(max_length=MAX_MODEL_ID_LENGTH, required=False, help_text="id or alias")
    is_enabled = serializers.BooleanField(required=False)


def settings_changed(settings: ModelSettings, given: dict[str, Any]) -> ModelSettings:
    """`settings` with what a `ModelChange` read."""
    plain = (
        "source",
        "projector_source",
        "is_default",
        "idle_unload_s",
        "engine",
        "admission",
        "chat_defaults",
        "completion_defaults",
        "has_embeddings",
    )
    changed: dict[str, Any] = {name: given[name] for name in plain if name in given}
    if "model_id" in given:
        changed["id"] = given["model_id"]
    if "aliases" in given:
        changed["aliases"] = tuple(given["aliases"])
    if "load_policy" in given:
        changed["load_policy"] = LoadPolicy(given["load_policy"])
    if "adapters" in given:
        changed["adapters"] = tuple(AdapterSettings(**adapter) for adapter in given["adapters"])
    if "speculation" in given:
        speculation = dict(given["speculation"])
        if "mode" in speculation:
            speculation["mode"] = SpeculationMode(speculation["mode"])
        changed["speculation"] = replace(settings.speculation, **speculation)
    if "access" in given:
        access = {
            name: value if isinstance(value, bool) else frozenset(value)
            for name, value in given["access"].items()
        }
        changed["access"] = replace(settings.access, **access)
    return replace(settings, **changed)
