"""How each model runs: the service's own settings, and what the model's row says instead.

The rules are those of the environment (env.py), so that a size is written and checked in one place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from inference.hosting.workshop import ModelSizes
from skippy_site.engine_settings import engine_config
from skippy_site.env import Environment, one_line

if TYPE_CHECKING:
    from inference.domain.model_settings import ModelSettings

# The settings that each model may have of its own: of its engine, and of who may start and wait there.
ENGINE_FIELDS = (
    "lanes",
    "context",
    "threads",
    "batch_threads",
    "media_threads",
    "batch",
    "micro_batch",
    "embedding_tokens",
    "gpu_layers",
    "split_mode",
    "tensor_split",
    "main_gpu",
    "kv_type_k",
    "kv_type_v",
    "flash_attention",
    "load_mode",
    "swa_full",
    "prefix_cache",
    "host_cache_bytes",
)
ADMISSION_FIELDS = (
    "queue",
    "adaptive_concurrency",
    "adaptive_initial_limit",
    "adaptive_window",
    "adaptive_min_improvement",
    "adaptive_max_latency_regression",
    "adaptive_max_hardware_regression",
    "adaptive_cooldown_windows",
    "adaptive_relief_windows",
    "adaptive_idle_reset_s",
)
_VARIABLE = re.compile(r"\bSKIPPY_([A-Z0-9_]+)")


def model_environment(
    environment: Environment, *, engine: Mapping[str, Any], admission: Mapping[str, Any]
) -> Environment:
    """The settings as they hold for one model. Raises ValueError with one line that names the setting at
    fault as rows call it (`lanes`, and not SKIPPY_LANES)."""
    for overrides, fields in ((engine, ENGINE_FIELDS), (admission, ADMISSION_FIELDS)):
        for name in overrides:
            if name not in fields:
                raise ValueError(f"{name}: there is no such setting; there are {', '.join(fields)}")
    if not engine and not admission:
        return environment
    given = {**msgspec.structs.asdict(environment), **engine, **admission}
    try:
        return msgspec.convert(given, Environment, strict=False)
    except msgspec.ValidationError as problem:
        text = one_line(str(problem), given)
        raise ValueError(_VARIABLE.sub(lambda found: found[1].lower(), text)) from None


def sizes_of(environment: Environment, settings: ModelSettings) -> ModelSizes:
    """Raises ValueError as `model_environment`."""
    own = model_environment(environment, engine=settings.engine, admission=settings.admission)
    return ModelSizes(engine=engine_config(own), max_waiting=own.max_queue, concurrency=own.concurrency)
