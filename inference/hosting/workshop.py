"""Makes a loaded model of its settings: files, sizes, engine, prompts, media."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from hooks.outbound.addresses import AllowedHosts
from inference.admission.concurrency import ConcurrencySettings
from inference.admission.controller import AdmissionController
from inference.domain.clock import Clock
from inference.domain.errors import InvalidRequest
from inference.domain.model_settings import ModelSettings
from inference.domain.outcomes import Recorder
from inference.engine.config import EngineConfig
from inference.engine.load_error import ModelLoadError
from inference.engine.load_order import LoadOrder, ModelFiles
from inference.hosting.loaded_model import LoadedModel
from inference.media.fetching import MediaFetcher
from inference.media.limits import MediaLimits
from inference.openai.chat_defaults import ChatDefaults
from inference.openai.request_defaults import RequestDefaults, parse_request_defaults
from inference.parsing.formats.registry import reads_tool_calls
from inference.prompting.chat_template import UnusableTemplate
from inference.prompting.prompt import PromptBuilder, PromptPolicy
from inference.services.engines import Engine, EngineLoader
from inference.services.media_desk import MediaDesk
from inference.services.model_catalog import ServedModel

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSizes:
    """How one model runs: its engine, how many may wait for it, and how many run at once."""

    engine: EngineConfig
    max_waiting: int
    concurrency: ConcurrencySettings = field(default_factory=ConcurrencySettings)


class ModelSources(Protocol):
    """Turns what settings name into files."""

    async def __call__(self, settings: ModelSettings, report: Callable[[str], None]) -> ModelFiles:
        """Fetches what is not here yet, which may take long; `report` gets a line now and then. Raises
        ModelLoadError with one line for the operator."""
        ...


SizeModel = Callable[[ModelSettings], ModelSizes]
"""The service's own sizes with the model's. Raises ValueError with one line that names the setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingSettings:
    """What all models are served by."""

    watchdog_s: float = 120.0
    chat_defaults: ChatDefaults = field(default_factory=ChatDefaults)
    media_limits: MediaLimits = field(default_factory=MediaLimits)
    media_hosts: AllowedHosts = field(default_factory=AllowedHosts)
    prompt_policy: PromptPolicy = field(default_factory=PromptPolicy)


class ModelWorkshop:
    """For one event loop, which it never blocks."""

    def __init__(
        self,
        settings: ServingSettings,
        *,
        loader: EngineLoader,
        sources: ModelSources,
        sizes: SizeModel,
        recorder: Recorder,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._loader = loader
        self._sources = sources
        self._sizes = sizes
        self._recorder = recorder
        self._clock = clock

    def request_defaults(self, settings: ModelSettings) -> RequestDefaults:
        """What requests for this model leave out. They were checked when they were saved: where they were
        saved by other rules, the service's own hold, and the log says so."""
        service = self._settings.chat_defaults
        try:
            return parse_request_defaults(
                settings.chat_defaults, settings.completion_defaults, service=service
            )
        except InvalidRequest as problem:
            _log.error("the defaults of the model %s cannot be used: %s", settings.id, problem.message)
            return RequestDefaults(chat=service)

    async def prepare(
        self, settings: ModelSettings, report: Callable[[str], None]
    ) -> tuple[LoadOrder, ModelSizes]:
        """All that can be known and fetched before memory is taken. Raises ModelLoadError."""
        try:
            sizes = self._sizes(settings)
        except ValueError as problem:
            raise ModelLoadError(str(problem)) from None
        files = await self._sources(settings, report)
        return LoadOrder(settings=settings, files=files, config=sizes.engine), sizes

    async def load(self, order: LoadOrder, sizes: ModelSizes) -> LoadedModel:
        """Raises ModelLoadError, with nothing held; may be waited for, but not interrupted."""
        admissions: list[AdmissionController] = []

        def admit(num_cells: int) -> AdmissionController:
            admissions.append(self._make_admission(order.settings.id, sizes, num_cells))
            return admissions[-1]

        engine = await self._loader.load(order, admit)
        try:
            served = await self._serve(order.settings, engine)
        except BaseException as problem:
            await engine.stop()
            if isinstance(problem, UnusableTemplate):
                raise ModelLoadError(str(problem)) from None
            raise
        return LoadedModel(
            served,
            engine,
            admissions[-1],
            watchdog_s=self._settings.watchdog_s,
            clock=self._clock,
            maps_weights=order.config.hardware.maps_weights,
        )

    async def _serve(self, settings: ModelSettings, engine: Engine) -> ServedModel:
        defaults = self.request_defaults(settings)
        policy = replace(self._settings.prompt_policy, reads_tool_calls=reads_tool_calls)
        if defaults.chat.template_source is not None:
            policy = replace(policy, template_source=defaults.chat.template_source)
        description = replace(engine.description, id=settings.id)
        # Templates are tried with conversations: tens of milliseconds.
        prompts = await asyncio.to_thread(PromptBuilder, engine.tokenizer, description, policy=policy)
        limits = self._settings.media_limits
        return ServedModel(
            settings=settings,
            description=description,
            tokenizer=engine.tokenizer,
            prompts=prompts,
            backend=engine.backend,
            constraints=engine.constraints,
            media=MediaDesk(engine.projector, limits, MediaFetcher(self._settings.media_hosts, limits)),
            embeddings=engine.embeddings,
            defaults=defaults.within_vocabulary(description.num_vocabulary),
        )

    def _make_admission(self, model_id: str, sizes: ModelSizes, num_cells: int) -> AdmissionController:
        return AdmissionController(
            num_lanes=sizes.engine.num_lanes,
            max_waiting=sizes.max_waiting,
            num_cells=num_cells,
            clock=self._clock,
            record=self._recorder.record_event,
            concurrency=sizes.concurrency,
            model_id=model_id,
        )
