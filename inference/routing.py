"""The API's paths. Trailing slashes are accepted, never redirected: a redirected POST loses its body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.urls import re_path

from accounts.limits.contracts import LimitDesk
from inference.api.authentication import Authenticator
from inference.api.chat_completions import ChatCompletionsConsumer
from inference.api.completions import CompletionsConsumer
from inference.api.embeddings import EmbeddingsConsumer, RerankConsumer
from inference.api.health import LivenessConsumer, ReadinessConsumer
from inference.api.messages import CountTokensConsumer, MessagesConsumer
from inference.api.metrics import MetricsAccess, MetricsConsumer
from inference.api.models import ModelConsumer, ModelListConsumer
from inference.api.not_found import NotFoundConsumer
from inference.api.responses import (
    InputItemsConsumer,
    InputTokensConsumer,
    ResponsesConsumer,
    StoredResponseConsumer,
)
from inference.api.tokenizing import DetokenizeConsumer, TokenizeConsumer
from inference.api.usage import UsageConsumer, UsageDesk
from inference.runtime import Runtime
from inference.telemetry.pipeline import TelemetryPipeline
from inference.telemetry.prometheus import RequestMetrics


@dataclass(frozen=True, slots=True)
class Watching:
    """What counts and tells what happens in this process, and who may read the counts."""

    metrics: RequestMetrics
    telemetry: TelemetryPipeline
    access: MetricsAccess


def api_routes(
    *,
    runtime: Runtime,
    authenticator: Authenticator,
    limit_desk: LimitDesk,
    watching: Watching,
    usage: UsageDesk,
    max_body_bytes: int,
) -> list[Any]:
    """Routes for a Channels URLRouter: /v1/…, /healthz, /readyz, /metrics, and a 404 for the rest of /v1."""
    shared: dict[str, Any] = {
        "authenticator": authenticator,
        "limit_desk": limit_desk,
        "max_body_bytes": max_body_bytes,
    }
    with_runtime = {**shared, "runtime": runtime}
    for_metrics = {
        **with_runtime,
        "metrics": watching.metrics,
        "telemetry": watching.telemetry,
        "access": watching.access,
    }
    for_usage = {**shared, "desk": usage, "stall_limit_s": runtime.settings.time_limits.send_s}
    return [
        re_path(r"^metrics/?$", MetricsConsumer.as_asgi(**for_metrics)),
        re_path(r"^healthz/?$", LivenessConsumer.as_asgi(**shared)),
        re_path(r"^readyz/?$", ReadinessConsumer.as_asgi(**with_runtime)),
        re_path(r"^v1/usage/?$", UsageConsumer.as_asgi(**for_usage)),
        re_path(r"^v1/models/?$", ModelListConsumer.as_asgi(**with_runtime)),
        re_path(r"^v1/models/(?P<model_id>.+?)/?$", ModelConsumer.as_asgi(**with_runtime)),
        re_path(r"^v1/chat/completions/?$", ChatCompletionsConsumer.as_asgi(**with_runtime)),
        re_path(r"^v1/completions/?$", CompletionsConsumer.as_asgi(**with_runtime)),
        re_path(r"^v1/embeddings/?$", EmbeddingsConsumer.as_asgi(**with_runtime)),
        re_path(r"^v1/rerank/?$", RerankConsumer.as_asgi(**with_runtime)),
        re_path(r"^v1/responses/?$", ResponsesConsumer.as_asgi(**with_runtime)),
        re_path(r"^v1/responses/input_tokens/?$", InputTokensConsumer.as_asgi(**with_runtime)),
        re_path(r"^v1/responses/(?P<response_id>[^/]+)/?$", StoredResponseConsumer.as_asgi(**with_runtime)),
        re_path(
            r"^v1/responses/(?P<response_id>[^/]+)/input_items/?$", InputItemsConsumer.as_asgi(**with_runtime)
        ),
        re_path(r"^v1/messages/?$", MessagesConsumer.as_asgi(**with_runtime)),
        re_path(r"^v1/messages/count_tokens/?$", CountTokensConsumer.as_asgi(**with_runtime)),
        re_path(r"^v1/tokenize/?$", TokenizeConsumer.as_asgi(**with_runtime)),
        re_path(r"^v1/detokenize/?$", DetokenizeConsumer.as_asgi(**with_runtime)),
        re_path(r"^/*v1(/.*)?$", NotFoundConsumer.as_asgi(**shared)),
    ]
