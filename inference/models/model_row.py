"""The models that this installation has: where each comes from, how it runs, who may use it.

One row a model, with its adapters and its names beside it; `inference.domain.model_settings` says what the
columns mean. Rows are written by `inference.model_rows.services` alone, which keeps the three tables, and
`revision`, true to each other.
"""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.expressions import Func
from django.db.models.lookups import Exact
from django.utils import timezone

from inference.domain.model_settings import LoadPolicy
from inference.domain.speculation import MAX_DRAFT_TOKENS, SpeculationMode

MAX_MODEL_ID_LENGTH = 200
MAX_ALIASES = 32
MAX_SOURCE_LENGTH = 4096
MAX_ADAPTERS = 64
MAX_ADAPTER_NAME_LENGTH = 100
MAX_ADAPTER_SCALE = 1000.0
MAX_IDLE_UNLOAD_S = 30 * 86_400.0
# What canonical_model_id (inference/domain/model.py) takes out of a name.
_HAS_MAIN = r"@main(:|$)"

LOAD_POLICIES = [
    (LoadPolicy.ALWAYS.value, "always"),
    (LoadPolicy.ON_DEMAND.value, "on demand"),
    (LoadPolicy.BY_HAND.value, "by hand"),
]
SPECULATION_MODES = [(mode.value, mode.value.replace("_", " ")) for mode in SpeculationMode]


def _is_object(column: str) -> Exact:
    kind = Func(models.F(column), function="jsonb_typeof", output_field=models.CharField())
    return Exact(kind, models.Value("object"))


class ModelRow(models.Model):
    """One model, as an administrator set it up. `revision` grows with every change of what it says."""

    model_id = models.CharField(
        "id", max_length=MAX_MODEL_ID_LENGTH, unique=True, help_text="What clients send as `model`."
    )
    aliases = ArrayField(
        models.CharField(max_length=MAX_MODEL_ID_LENGTH),
        verbose_name="aliases",
        size=MAX_ALIASES,
        default=list,
        blank=True,
        help_text="Other names for it, with commas.",
    )
    source = models.CharField(
        "source",
        max_length=MAX_SOURCE_LENGTH,
        help_text="A GGUF file's path on the server, or hf:org/repo/file.gguf.",
    )
    projector_source = models.CharField(
        "projector",
        max_length=MAX_SOURCE_LENGTH,
        blank=True,
        default="",
        help_text="The same for the file that lets it read pictures or sounds. Empty: none.",
    )
    is_enabled = models.BooleanField(
        "enabled", default=True, help_text="A model that is not enabled is not served."
    )
    is_default = models.BooleanField(
        "default", default=False, help_text="For requests that need not name a model. One model at most is."
    )
    load_policy = models.CharField(
        "loaded", max_length=16, choices=LOAD_POLICIES, default=LoadPolicy.ALWAYS.value
    )
    wants_loaded = models.BooleanField(
        "last word about loading", null=True, blank=True, default=None, editable=False
    )
    idle_unload_s = models.FloatField(
        "unloaded after idle seconds",
        default=0.0,
        help_text="Where it is loaded on demand. 0: never.",
    )
    engine = models.JSONField(
        "engine settings",
        default=dict,
        blank=True,
        help_text="What differs from the service's own, by its names in lower case without SKIPPY_.",
    )
    admission = models.JSONField(
        "admission settings",
        default=dict,
        blank=True,
        help_text="Who may start and wait, where it differs from the service's own: queue, "
        "adaptive_concurrency, …",
    )
    chat_defaults = models.JSONField(
        "defaults of chats",
        default=dict,
        blank=True,
        help_text="What requests leave out, as in their bodies.",
    )
    completion_defaults = models.JSONField("defaults of completions", default=dict, blank=True)
    has_embeddings = models.BooleanField(
        "embeddings", default=False, help_text="Whether it answers /v1/embeddings."
    )
    speculation_mode = models.CharField(
        "speculation", max_length=16, choices=SPECULATION_MODES, default=SpeculationMode.OFF.value
    )
    max_draft_tokens = models.PositiveSmallIntegerField("tokens of a draft, at most", default=8)
    allows_speculation_requests = models.BooleanField(
        "requests may choose how they are drafted", default=True
    )
    draft_source = models.CharField(
        "draft model",
        max_length=MAX_SOURCE_LENGTH,
        blank=True,
        default="",
        help_text="A smaller model of the same vocabulary: a path or hf:… Empty: none.",
    )
    is_open = models.BooleanField(
        "open to everybody", default=True, help_text="Otherwise to the teams and keys named here alone."
    )
    teams = models.ManyToManyField("accounts.Team", blank=True, related_name="+", verbose_name="teams")
    keys = models.ManyToManyField("accounts.ApiKey", blank=True, related_name="+", verbose_name="keys")
    revision = models.BigIntegerField("revision", default=1, editable=False)
    created_at = models.DateTimeField("added", default=timezone.now, editable=False)
    updated_at = models.DateTimeField("changed", default=timezone.now, editable=False)

    class Meta:
        verbose_name = "model"
        ordering: ClassVar = ["pk"]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=~models.Q(model_id="") & ~models.Q(model_id__regex=_HAS_MAIN),
                name="model_id_canonical",
            ),
            models.CheckConstraint(condition=~models.Q(source=""), name="model_source_not_empty"),
            models.UniqueConstraint(
                fields=["is_default"], condition=models.Q(is_default=True), name="model_default_once"
            ),
            models.CheckConstraint(
                condition=models.Q(load_policy__in=[policy.value for policy in LoadPolicy]),
                name="model_load_policy_known",
            ),
            # NaN is above every number for Postgres, so both of these leave it out.
            models.CheckConstraint(
                condition=models.Q(idle_unload_s__gte=0, idle_unload_s__lte=MAX_IDLE_UNLOAD_S),
                name="model_idle_unload_range",
            ),
            models.CheckConstraint(
                condition=models.Q(speculation_mode__in=[mode.value for mode in SpeculationMode]),
                name="model_speculation_known",
            ),
            models.CheckConstraint(
                condition=models.Q(max_draft_tokens__gte=1, max_draft_tokens__lte=MAX_DRAFT_TOKENS),
                name="model_draft_tokens_range",
            ),
            models.CheckConstraint(condition=models.Q(revision__gte=1), name="model_revision_positive"),
            *(
                models.CheckConstraint(condition=_is_object(column), name=f"model_{column}_object")
                for column in ("engine", "admission", "chat_defaults", "completion_defaults")
            ),
        ]

    def __str__(self) -> str:
        return self.model_id


class ModelName(models.Model):
    """A name that a model is found under: its id, or an alias. No two models share one."""

    name = models.CharField("name", max_length=MAX_MODEL_ID_LENGTH, primary_key=True)
    row = models.ForeignKey(ModelRow, on_delete=models.CASCADE, related_name="names")

    class Meta:
        verbose_name = "name of a model"
        verbose_name_plural = "names of models"
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=~models.Q(name="") & ~models.Q(name__regex=_HAS_MAIN), name="model_name_canonical"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class ModelAdapter(models.Model):
    """A LoRA adapter of a model; `inference.domain.adapters` says what the columns mean."""

    row = models.ForeignKey(ModelRow, on_delete=models.CASCADE, related_name="adapters", verbose_name="model")
    name = models.CharField("name", max_length=MAX_ADAPTER_NAME_LENGTH)
    source = models.CharField(
        "source", max_length=MAX_SOURCE_LENGTH, help_text="A GGUF file's path on the server, or hf:…"
    )
    scale = models.FloatField("scale", default=1.0)
    is_default = models.BooleanField(
        "applies by default", default=False, help_text="Where a request names no adapter."
    )

    class Meta:
        verbose_name = "adapter"
        ordering: ClassVar = ["pk"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["row", "name"], name="adapter_name_unique"),
            models.CheckConstraint(
                condition=~models.Q(name="") & ~models.Q(source=""), name="adapter_not_empty"
            ),
            models.CheckConstraint(
                condition=models.Q(scale__gte=-MAX_ADAPTER_SCALE, scale__lte=MAX_ADAPTER_SCALE),
                name="adapter_scale_range",
            ),
        ]

    def __str__(self) -> str:
        return self.name
