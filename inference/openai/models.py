"""GET /v1/models: OpenAI's four fields, and what a caller needs to know to use the model well."""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from inference.domain.model import ListedModel, ModelDescription
from inference.openai.protocol import RANGES, SamplingRequest

OWNER = "skippy"


def model_object(model: ListedModel) -> dict[str, object]:
    """The schema's Model, with ours after it; what nobody knows as long as the model is not loaded is left
    out.

    `state` is where it is in its life; `context_length` bounds prompt and answer of one request together
    (`max_model_len` is the same under vLLM's name); `default_sampling` is what applies where a request says
    nothing, which differs from OpenAI's. What has a `parent` is that model with one of its adapters.
    """
    head: dict[str, object] = {
        "id": model.id,
        "object": "model",
        "created": model.created,
        "owned_by": OWNER,
        "state": model.state.value,
    }
    if model.parent:
        head["parent"] = model.parent
    description = model.description
    if description is None:
        return head
    sampling = SamplingRequest().resolve({**description.sampling_defaults, **model.default_sampling})
    embedding = description.embedding
    return {
        **head,
        "context_length": description.max_request_tokens,
        "max_model_len": description.max_request_tokens,
        "trained_context_length": description.trained_context,
        "num_parameters": description.num_parameters,
        "size_bytes": description.size_bytes,
        "has_chat_template": bool(description.chat_templates),
        "input_modalities": ["text", *sorted(kind.value for kind in description.media_kinds)],
        "capabilities": _capabilities(description),
        "embedding_length": None if embedding is None or embedding.can_rank else embedding.width,
        "max_embedding_tokens": None if embedding is None else embedding.max_tokens,
        "default_sampling": {name: getattr(sampling, name) for name in RANGES},
    }


def _capabilities(description: ModelDescription) -> list[str]:
    """What it can be asked for: `completion`, `embedding`, `rerank`."""
    capabilities = ["completion"] if description.can_generate else []
    if description.embedding is not None:
        capabilities.append("rerank" if description.embedding.can_rank else "embedding")
    return capabilities


def model_body(model: ListedModel) -> bytes:
    """The answer to GET /v1/models/{id}."""
    return orjson.dumps(model_object(model))


def model_list_body(models: Iterable[ListedModel]) -> bytes:
    """The answer to GET /v1/models."""
    return orjson.dumps({"object": "list", "data": [model_object(one) for one in models]})
