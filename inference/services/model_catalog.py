"""Which models there are, and under which names they are found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

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
    adapter: str = ""
    """The LoRA adapter that the caller named with the model."""
    may_choose_adapters: bool = True

    def named(self, adapter: str, *, may_choose: bool) -> ServedModel:
        """As it answers to its id with this adapter behind it."""
        id = adapter_model_id(self.settings.id, adapter)
        description = replace(self.description, id=id)
        return replace(self, description=description, adapter=adapter, may_choose_adapters=may_choose)

    def check_generates(self) -> None:
        """Raises InvalidRequest where the model only embeds or ranks."""
        if not self.description.can_generate:
            raise no_generation()


class MayUse(Protocol):
    """Whether a model is there for somebody, or with `adapter` whether that adapter of it is."""

    def __call__(self, settings: ModelSettings, adapter: str = "") -> bool: ...


@dataclass(frozen=True, slots=True)
class FoundModel:
    """What a name means: a model, and the adapter that it is to be used with ("": none was named)."""

    settings: ModelSettings
    adapter: str = ""

    @property
    def id(self) -> str:
        return adapter_model_id(self.settings.id, self.adapter) if self.adapter else self.settings.id


def adapter_model_id(model_id: str, adapter: str) -> str:
    """Under which id a model answers with one of its adapters."""
    return f"{model_id}:{adapter}"


def no_such_model(name: str) -> ModelNotFound:
    """Names (a bounded part of) what was asked for; the same for a model that the caller may not use."""
    shown = "".join(c if c.isprintable() else "?" for c in name[:MAX_SHOWN_ID])
    return ModelNotFound(
        f"The model '{shown}' does not exist or you do not have access to it.", param="model"
    )


def _all(settings: ModelSettings, adapter: str = "") -> bool:
    return True


class ModelCatalog:
    """All models of this process, loaded or not, in the order in which they were added. `may_use` says
    which of them are there for whoever asks; an id goes before others' aliases, and an alias that two
    models have is the first one's. A name with ":" and the name of one of its adapters behind it is the model
    with that adapter, unless some model is called so itself."""

    def __init__(self, models: Sequence[ModelSettings] = ()) -> None:
        self._models = tuple(models)
        plain = [FoundModel(one) for one in reversed(self._models)]
        self._names: dict[str, FoundModel] = {alias: one for one in plain for alias in one.settings.aliases}
        self._names.update({one.id: one for one in plain})
        for name, found in list(self._names.items()):
            for adapter in found.settings.adapters:
                named = FoundModel(found.settings, adapter.name)
                self._names.setdefault(adapter_model_id(name, adapter.name), named)

    def models(self, *, may_use: MayUse = _all) -> list[ModelSettings]:
        return [model for model in self._models if may_use(model)]

    def default(self, *, may_use: MayUse = _all) -> ModelSettings:
        """For requests that need not name any: the one that is set to be it, or the first. Raises
        ModelNotFound where there is none."""
        models = self.models(may_use=may_use)
        if not models:
            raise ModelNotFound("No model is served to you.", param="model")
        return next((model for model in models if model.is_default), models[0])

    def variants(self, *, may_use: MayUse = _all) -> list[FoundModel]:
        """All that can be named, each once by its id: models, and behind each its adapters."""
        return [
            found
            for settings in self._models
            for found in (
                FoundModel(settings),
                *[FoundModel(settings, adapter.name) for adapter in settings.adapters],
            )
            if may_use(settings, found.adapter) and self._names[found.id] == found
        ]

    def model(self, name: str, *, may_use: MayUse = _all) -> FoundModel:
        """By id or alias, or raises `no_such_model`."""
        found = self._names.get(name) or self._names.get(canonical_model_id(name))
        if found is None or not may_use(found.settings, found.adapter):
            raise no_such_model(name)
        return found

    def __repr__(self) -> str:
        return f"<ModelCatalog of {len(self._models)} models, {len(self._names)} names>"
