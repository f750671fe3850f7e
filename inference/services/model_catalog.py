"""Which models are served, and under which names they are found."""

from __future__ import annotations

from dataclasses import dataclass

from inference.domain.backend import GenerationBackend
from inference.domain.errors import ModelNotFound
from inference.domain.model import ModelDescription
from inference.domain.tokenizer import Tokenizer
from inference.prompting.prompt import PromptBuilder

MAX_SHOWN_ID = 100


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A loaded model with everything that a request for it needs."""

    description: ModelDescription
    tokenizer: Tokenizer
    prompts: PromptBuilder
    backend: GenerationBackend


def canonical_id(model_id: str) -> str:
    """The id without its first "@main" that stands before a colon or at the end: clients of hub
    names add that revision, and it means the id itself."""
    head, marker, tail = model_id.partition("@main")
    return head + tail if marker and (not tail or tail.startswith(":")) else model_id


class ModelCatalog:
    """The models of this process, in the order in which they were added."""

    def __init__(self) -> None:
        self._models: dict[str, ServedModel] = {}

    def add(self, model: ServedModel) -> None:
        self._models[model.description.id] = model

    def models(self) -> list[ServedModel]:
        return list(self._models.values())

    def model(self, model_id: str) -> ServedModel:
        """By id; raises ModelNotFound, which names (a bounded part of) what was asked for."""
        found = self._models.get(model_id) or self._models.get(canonical_id(model_id))
        if found is None:
            shown = "".join(c if c.isprintable() else "?" for c in model_id[:MAX_SHOWN_ID])
            raise ModelNotFound(
                f"The model '{shown}' does not exist or you do not have access to it.", param="model"
            )
        return found
