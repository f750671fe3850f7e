"""Builds and owns what serves requests: model, engine, admission, services; starts, drains, stops.

One runtime a process. It is made with the ASGI application and started by the server once the event
loop runs, so that commands and Celery workers load no model. While it loads, the doors answer 503.

    IDLE → LOADING → READY → DRAINING → STOPPED
               └────────→ FAILED
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import Protocol, TypeVar

from inference.admission.concurrency import ConcurrencySettings
from inference.admission.controller import AdmissionController, AdmissionStatistics
from inference.domain.clock import Clock
from inference.domain.errors import ServiceUnavailable
from inference.domain.kept_answers import AnswerKeeping
from inference.domain.ledger import Ledger, LedgerStatistics
from inference.domain.outcomes import Recorder
from inference.domain.rejection_reason import RejectionReason
from inference.domain.time_limits import TimeLimits
from inference.engine.load_error import ModelLoadError
from inference.engine.stats import EngineStatistics
from inference.engine.watchdog import Watchdog
from inference.media.addresses import AllowedHosts
from inference.media.fetching import MediaFetcher
from inference.media.limits import MediaLimits
from inference.openai.ids import new_chat_completion_id, new_completion_id, new_response_id
from inference.openai.protocol import ChatRequest, CompletionRequest
from inference.openai.rendering import ChatRendering, CompletionRendering
from inference.openai.responses.protocol import ResponseRequest
from inference.openai.responses.rendering import ResponseRendering, response_members
from inference.parsing.formats.registry import reads_tool_calls
from inference.prompting.chat_template import UnusableTemplate
from inference.prompting.prompt import PromptBuilder, PromptPolicy
from inference.services.chat_defaults import ChatDefaults
from inference.services.constraints import ConstraintDesk
from inference.services.engines import Engine, EngineLoader
from inference.services.entrance import Entrance
from inference.services.generation import GenerationService
from inference.services.media_desk import MediaDesk
from inference.services.model_catalog import ModelCatalog, ServedModel
from inference.services.prompt_pool import PromptPool
from inference.services.tokenization import TokenizationService
from inference.streaming.lifecycle import RequestIdentity, RequestLifecycle
from inference.streaming.sessions import SessionRegistry, SessionStatistics

_log = logging.getLogger(__name__)

PROMPT_THREADS = 2
# Reading a body costs about 6 µs for 2 kB: this much is half a millisecond.
MAX_BODY_BYTES_ON_LOOP = 128 * 1024

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class BodyParser(Protocol[T_co]):
    """parse_chat_request and its like: bytes to a validated request, or InvalidRequest."""

    def __call__(self, body: bytes, *, strict_fields: bool) -> T_co: ...


class RuntimeState(Enum):
    """Where the runtime is in its life; see the module's picture."""

    IDLE = "not started"
    LOADING = "loading the model"
    READY = "ready"
    DRAINING = "draining"
    STOPPED = "stopped"
    FAILED = "the engine could not be started"


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """What the runtime needs to know of the service's settings."""

    num_lanes: int
    max_waiting: int
    strict_fields: bool = False
    has_shared_prefixes: bool = False
    allows_gbnf: bool = False
    watchdog_s: float = 120.0
    session_header: str = ""
    """The one header that names a trusted session, in lower case; empty: none does."""
    time_limits: TimeLimits = field(default_factory=TimeLimits)
    concurrency: ConcurrencySettings = field(default_factory=ConcurrencySettings)
    chat_defaults: ChatDefaults = field(default_factory=ChatDefaults)
    media_limits: MediaLimits = field(default_factory=MediaLimits)
    media_hosts: AllowedHosts = field(default_factory=AllowedHosts)
    prompt_policy: PromptPolicy = field(default_factory=PromptPolicy)


@dataclass(frozen=True, slots=True)
class Readiness:
    """What /readyz says. `reasons` name what is in the way, or what is away but not needed.

    `status` is ready, degraded, unavailable (waiting helps) or failed (only a new process does).
    `cause` is for those who run the service alone: it may name files and sizes.
    """

    is_ready: bool
    status: str
    reasons: tuple[str, ...] = ()
    cause: str = ""


@dataclass(frozen=True, slots=True)
class RuntimeStatistics:
    """What is held right now; all of it is back to nothing when nobody generates."""

    engine: EngineStatistics
    admission: AdmissionStatistics
    sessions: SessionStatistics
    ledger: LedgerStatistics


Probe = Callable[[], Awaitable[bool]]


class Runtime:
    """See the module. `database_probe` and `broker_probe` answer quickly and do not raise."""

    def __init__(
        self,
        settings: RuntimeSettings,
        *,
        loader: EngineLoader,
        recorder: Recorder,
        ledger: Ledger,
        answer_keeping: AnswerKeeping,
        clock: Clock,
        database_probe: Probe,
        broker_probe: Probe,
    ) -> None:
        self.settings = settings
        self.catalog = ModelCatalog()
        self.state = RuntimeState.IDLE
        self.admission: AdmissionController | None = None
        self.engine: Engine | None = None
        self._loader = loader
        self._recorder = recorder
        self._ledger = ledger
        self.answer_keeping = answer_keeping
        self._clock = clock
        self._database_probe = database_probe
        self._broker_probe = broker_probe
        self.sessions = SessionRegistry()
        self._prompt_pool = ThreadPoolExecutor(PROMPT_THREADS, thread_name_prefix="prompt")
        prompt_pool = PromptPool(self._prompt_pool, num_threads=PROMPT_THREADS)
        self._constraints = ConstraintDesk(allows_gbnf=settings.allows_gbnf)
        self._generation = GenerationService(
            catalog=self.catalog,
            prompt_pool=prompt_pool,
            entrance=Entrance(sessions=self.sessions, clock=clock, limits=settings.time_limits),
            constraints=self._constraints,
            has_shared_prefixes=settings.has_shared_prefixes,
            chat_defaults=settings.chat_defaults,
            max_token_gap_s=settings.time_limits.token_gap_s or None,
        )
        self._tokenization = TokenizationService(
            catalog=self.catalog, prompt_pool=prompt_pool, chat_defaults=settings.chat_defaults
        )
        self._watchdog = Watchdog(settings.watchdog_s)
        self._cause = ""
        self._loading: asyncio.Task[None] | None = None

    # -- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to load; returns at once, so that the server answers 503 meanwhile."""
        self.state = RuntimeState.LOADING
        self._loading = asyncio.create_task(self._load())

    async def _load(self) -> None:
        try:
            self.engine = await self._loader.load(self._make_admission)
            description, tokenizer = self.engine.description, self.engine.tokenizer
            policy = replace(self.settings.prompt_policy, reads_tool_calls=reads_tool_calls)
            prompts = PromptBuilder(tokenizer, description, policy=policy)
        except (ModelLoadError, UnusableTemplate) as problem:
            # What the operator did or lacks, in one sentence: a traceback would only hide it.
            _log.critical("the engine could not be started: %s", problem)
            self._cause = str(problem)
            self.state = RuntimeState.FAILED
            return
        except Exception:
            _log.exception("the engine could not be started")
            self.state = RuntimeState.FAILED
            return
        limits = self.settings.media_limits
        media = MediaDesk(self.engine.projector, limits, MediaFetcher(self.settings.media_hosts, limits))
        self.catalog.add(
            ServedModel(description, tokenizer, prompts, self.engine.backend, self.engine.constraints, media)
        )
        if self.state is RuntimeState.LOADING:
            self.state = RuntimeState.READY
            _log.info("model %s is ready", description.id)

    def watch(self) -> None:
        """Look whether the engine makes progress, every second or so. One that hangs is given up:
        from then on it counts as dead."""
        if self.engine is None:
            return
        stall = self._watchdog.observe(self.engine.statistics(), self._clock.monotonic())
        if stall is not None:
            self._cause = f"the engine has made no progress for {stall.stalled_s:.0f} s"
            _log.critical("the engine hangs: %s", stall)
            self.engine.give_up()

    def _make_admission(self, num_cells: int) -> AdmissionController:
        self.admission = AdmissionController(
            num_lanes=self.settings.num_lanes,
            max_waiting=self.settings.max_waiting,
            num_cells=num_cells,
            clock=self._clock,
            record=self._recorder.record_event,
            concurrency=self.settings.concurrency,
        )
        return self.admission

    def begin_drain(self) -> None:
        """No newcomers from now on; what waits is answered at once, what runs goes on."""
        self.state = RuntimeState.DRAINING
        error = ServiceUnavailable("The service is shutting down.", reason=RejectionReason.DRAINING)
        self.sessions.close(error)
        if self.engine is not None:
            self.engine.refuse(error)

    def begin_stop(self) -> None:
        """The grace time is over: whoever still generates gets an error in-band, at once."""
        if self.engine is not None:
            self.engine.begin_stop()

    async def stop(self) -> None:
        """Stop the engine (running requests get an error) and give everything back."""
        if self._loading is not None:
            await asyncio.wait([self._loading])
        if self.engine is not None:
            await self.engine.stop()
        for model in self.catalog.models():
            await asyncio.to_thread(model.media.close)
        self._prompt_pool.shutdown(wait=False, cancel_futures=True)
        self._constraints.close()
        self.state = RuntimeState.STOPPED

    # -- for the doors ----------------------------------------------------------------------------

    @property
    def generation(self) -> GenerationService:
        """The service; raises ServiceUnavailable while nothing can be generated."""
        self.check_ready()
        return self._generation

    @property
    def tokenization(self) -> TokenizationService:
        """Raises ServiceUnavailable while no model is there."""
        self.check_ready()
        return self._tokenization

    def check_ready(self) -> None:
        """Raises ServiceUnavailable while nothing can be generated."""
        if self.state is not RuntimeState.READY:
            raise ServiceUnavailable(f"The service cannot generate now: {self.state.value}.")
        if self.engine is None or not self.engine.is_alive:
            raise ServiceUnavailable("The service cannot generate now: its engine has stopped.")

    async def parse(self, parse: BodyParser[T], body: bytes) -> T:
        """A validated request. Large bodies are read on the pool: the loop has others to serve."""
        work = partial(parse, body, strict_fields=self.settings.strict_fields)
        return await self.off_loop(work, num_bytes=len(body))

    async def off_loop(self, work: Callable[[], T], *, num_bytes: int) -> T:
        """The result of reading or writing so much JSON: at once, or on the pool where it would take long."""
        if num_bytes <= MAX_BODY_BYTES_ON_LOOP:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._prompt_pool, work)

    def lifecycle(self, identity: RequestIdentity) -> RequestLifecycle:
        return RequestLifecycle(identity, recorder=self._recorder, ledger=self._ledger, clock=self._clock)

    def chat_rendering(self, request: ChatRequest) -> ChatRendering:
        model = self.catalog.model(request.model).description
        return ChatRendering(
            id=new_chat_completion_id(),
            created=int(self._clock.unix_time()),
            model=model.id,
            fingerprint=model.fingerprint,
            wants_usage=request.wants_usage,
            wants_logprobs=request.num_top_logprobs is not None,
            offers_tools=bool(request.tool_use.callable_tools),
        )

    def response_rendering(self, request: ResponseRequest, *, is_stored: bool) -> ResponseRendering:
        model = self.catalog.model(request.model).description
        members = response_members(
            request,
            id=new_response_id(),
            created=int(self._clock.unix_time()),
            model=model.id,
            sampling=request.sampling.resolve(model.sampling_defaults),
            is_stored=is_stored,
        )
        return ResponseRendering(members=members, now=self._clock.unix_time)

    def completion_rendering(self, request: CompletionRequest) -> CompletionRendering:
        model = self.catalog.model(request.model).description
        return CompletionRendering(
            id=new_completion_id(),
            created=int(self._clock.unix_time()),
            model=model.id,
            fingerprint=model.fingerprint,
            wants_usage=request.wants_usage,
            wants_logprobs=request.num_top_logprobs is not None,
        )

    def statistics(self) -> RuntimeStatistics | None:
        """None while nothing is loaded."""
        if self.engine is None or self.admission is None:
            return None
        return RuntimeStatistics(
            self.engine.statistics(),
            self.admission.statistics(),
            self.sessions.statistics(),
            self._ledger.statistics(),
        )

    async def readiness(self) -> Readiness:
        """Ready needs a live engine, a journal that can be written and the database; without the broker it
        is only degraded."""
        if self.state is RuntimeState.FAILED:
            return Readiness(False, "failed", (self.state.value,), self._cause)
        if self.state is not RuntimeState.READY:
            return Readiness(False, "unavailable", (self.state.value,))
        if self.engine is None or not self.engine.is_alive:
            return Readiness(False, "failed", ("the engine has stopped",), self._cause)
        if self._ledger.fault is not None:
            return Readiness(False, "unavailable", (f"records cannot be kept: {self._ledger.fault}",))
        has_database, has_broker = await asyncio.gather(self._database_probe(), self._broker_probe())
        if not has_database:
            return Readiness(False, "unavailable", ("the database does not answer",))
        if not has_broker:
            return Readiness(True, "degraded", ("the broker does not answer",))
        return Readiness(True, "ready")
