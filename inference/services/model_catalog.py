"""Which models are served, and under which names they are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from inference.domain.backend import GenerationBackend
from inference.domain.constraint import ConstraintCompiler
from inference.domain.errors import ModelNotFound
from inference.domain.model import ModelDescription, canonical_model_id
from inference.domain.tokenizer import Tokenizer
from inference.prompting.prompt import PromptBuilder
from inference.services.media_desk import MediaDesk

MAX_SHOWN_ID = 100


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A loaded model with everything that a request for it needs."""

    description: ModelDescription
    tokenizer: Tokenizer
    prompts: PromptBuilder
    backend: GenerationBackend
    constraints: ConstraintCompiler
    media: MediaDesk


def _all(model_id: str) -> bool:
    return True


class ModelCatalog:
    """The models of this process, in the order in which they were added."""

    def __init__(self) -> None:
        self._models: dict[str, ServedModel] = {}

    def add(self, model: ServedModel) -> None:
        self._models[model.description.id] = model

    def models(self, *, may_use: Callable[[str], bool] = _all) -> list[ServedModel]:
        """Those whose ids `may_use` is true of."""
        return [model for model in self._models.values() if may_use(model.description.id)]

    def default(self, *, may_use: Callable[[str], bool] = _all) -> ServedModel:
        """The first one, for requests that need not name any. Raises ModelNotFound where there is none."""
        for model in self.models(may_use=may_use):
            return model
        raise ModelNotFound("No model is served to you.", param="model")

    def model(self, model_id: str, *, may_use: Callable[[str], bool] = _all) -> ServedModel:
        """By id; raises ModelNotFound, which names (a bounded part of) what was asked for, and is the
        same for a model that the caller may not use."""
        found = self._models.get(model_id) or self._models.get(canonical_model_id(model_id))
        if found is None or not may_use(found.description.id):
            shown = "".join(c if c.isprintable() else "?" for c in model_id[:MAX_SHOWN_ID])
            raise ModelNotFound(
                f"The model '{shown}' does not exist or you do not have access to it.", param="model"
            )
        return found
