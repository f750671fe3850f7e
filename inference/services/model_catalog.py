"""Which models there are, and under which names they are found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from inference.domain.backend import GenerationBackend
from inference.domain.constraint import ConstraintCompiler
from inference.domain.embeddings import EmbeddingBackend
from inference.domain.errors import ModelNotFound
from inference.domain.model import ModelDescription, canonical_model_id
from inference.domain.model_settings import ModelSettings
from inference.domain.tokenizer import Tokenizer
from inference.engine.embedding_engine import no_generation
from inference.openai.request_defaults import RequestDefaults
from inference.prompting.prompt import PromptBuilder
from inference.services.media_desk import MediaDesk

MAX_SHOWN_ID = 100


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A loaded model with everything that a request for it needs. `settings` are those of the moment: what
    changes without a new load is another ServedModel on the same engine."""

    settings: ModelSettings
    description: ModelDescription
    tokenizer: Tokenizer
    prompts: PromptBuilder
    backend: GenerationBackend
    constraints: ConstraintCompiler
    media: MediaDesk
    defaults: RequestDefaults
    embeddings: EmbeddingBackend | None = None

    def check_generates(self) -> None:
        """Raises InvalidRequest where the model only embeds or ranks."""
        if not self.description.can_generate:
            raise no_generation()


MayUse = Callable[[ModelSettings], bool]


def _all(settings: ModelSettings) -> bool:
    return True


class ModelCatalog:
    """All models of this process, loaded or not, in the order in which they were added. `may_use` says
    which of them are there for whoever asks; an id goes before others' aliases, and an alias that two
    models have is the first one's."""

    def __init__(self, models: Sequence[ModelSettings] = ()) -> None:
        self._models = tuple(models)
        self._names = {alias: one for one in reversed(self._models) for alias in one.aliases}
        self._names.update({one.id: one for one in reversed(self._models)})

    def models(self, *, may_use: MayUse = _all) -> list[ModelSettings]:
        return [model for model in self._models if may_use(model)]

    def default(self, *, may_use: MayUse = _all) -> ModelSettings:
        """For requests that need not name any: the one that is set to be it, or the first. Raises
        ModelNotFound where there is none."""
        models = self.models(may_use=may_use)
        if not models:
            raise ModelNotFound("No model is served to you.", param="model")
        return next((model for model in models if model.is_default), models[0])

    def model(self, name: str, *, may_use: MayUse = _all) -> ModelSettings:
        """By id or alias; raises ModelNotFound, which names (a bounded part of) what was asked for, and is
        the same for a model that the caller may not use."""
        found = self._names.get(name) or self._names.get(canonical_model_id(name))
        if found is None or not may_use(found):
            shown = "".join(c if c.isprintable() else "?" for c in name[:MAX_SHOWN_ID])
            raise ModelNotFound(
                f"The model '{shown}' does not exist or you do not have access to it.", param="model"
            )
        return found

    def __repr__(self) -> str:
        return f"<ModelCatalog of {len(self._models)} models, {len(self._names)} names>"
