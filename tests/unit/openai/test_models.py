from __future__ import annotations

import json
from dataclasses import replace

from openai.types import Model

from inference.domain.embeddings import EmbeddingDescription
from inference.domain.model import ListedModel, ModelDescription
from inference.domain.model_settings import ModelState
from inference.openai.models import model_body, model_list_body
from tests.unit.openai.test_rendering import validator

DESCRIPTION = ModelDescription(
    id="tiny",
    created=1700,
    trained_context=2048,
    num_cells=16384,
    max_request_tokens=2048,
    num_vocabulary=100,
    chat_templates={"default": "{{ messages }}"},
    sampling_defaults={"temperature": 0.6},
    size_bytes=7,
    num_parameters=9,
)
TINY = ListedModel("tiny", ModelState.READY, DESCRIPTION.created, DESCRIPTION)

ADAPTER = ListedModel("tiny:polite", ModelState.READY, 1700, DESCRIPTION, parent="tiny")
UNLOADED = ListedModel("big", ModelState.UNLOADED, 1800)


def test_a_model_says_what_a_caller_needs_to_know() -> None:
    value = json.loads(model_body(TINY))
    validator("Model").validate(value)
    assert Model.model_validate(value).id == "tiny"
    assert value["context_length"] == 2048
    assert value["has_chat_template"] is True
    assert value["default_sampling"]["temperature"] == 0.6
    assert value["default_sampling"]["top_k"] == 40
    assert value["state"] == "ready"


def test_a_model_says_what_it_can_be_asked_for() -> None:
    def capabilities(
        can_generate: bool, embedding: EmbeddingDescription | None
    ) -> tuple[list[str], int | None]:
        described = replace(DESCRIPTION, can_generate=can_generate, embedding=embedding)
        value = json.loads(model_body(replace(TINY, description=described)))
        return value["capabilities"], value["embedding_length"]

    embeds, ranks = EmbeddingDescription(8, 512), EmbeddingDescription(8, 512, can_rank=True)
    assert capabilities(True, None) == (["completion"], None)
    assert capabilities(True, embeds) == (["completion", "embedding"], 8)
    assert capabilities(False, embeds) == (["embedding"], 8)
    assert capabilities(False, ranks) == (["rerank"], None)


def test_of_a_model_that_is_not_loaded_nothing_is_made_up() -> None:
    value = json.loads(model_body(ListedModel("tiny", ModelState.UNLOADED, 1700)))
    validator("Model").validate(value)
    assert value["state"] == "unloaded" and "context_length" not in value


def test_the_list_of_models() -> None:
    value = json.loads(model_list_body([TINY, ADAPTER, UNLOADED]))
    validator("ListModelsResponse").validate(value)
    assert [model["id"] for model in value["data"]] == ["tiny", "tiny:polite", "big"]
    assert [model.get("parent") for model in value["data"]] == [None, "tiny", None]
    assert [model["state"] for model in value["data"]] == ["ready", "ready", "unloaded"]
    assert json.loads(model_list_body([])) == {"object": "list", "data": []}
