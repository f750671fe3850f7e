"""Builds and owns what serves requests: the fleet of models and the services; starts, drains, stops.

One runtime a process. It is made with the ASGI application and started by the server once the event
loop runs, so that commands and Celery workers load no model. While models load, the doors answer 503.

    IDLE → LOADING ⇄ READY → DRAINING → STOPPED
               └──→ FAILED
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Protocol, TypeVar

from accounts.contracts import Principal
from hooks.contracts.exchange import HookDesk
from inference.domain.clock import Clock
from inference.domain.errors import ServiceUnavailable
from inference.domain.kept_answers import AnswerKeeping
from inference.domain.ledger import Ledger, LedgerStatistics
from inference.domain.model_settings import ModelStore
from inference.domain.outcomes import Recorder
from inference.domain.rejection_reason import RejectionReason
from inference.domain.time_limits import TimeLimits
from inference.hosting.condition import FleetCondition
from inference.hosting.fleet import Fleet
from inference.hosting.lease import ModelLease
from inference.hosting.loaded_model import ModelStatistics
from inference.hosting.workshop import ModelSources, ModelWorkshop, ServingSettings, SizeModel
from inference.openai.ids import new_chat_completion_id, new_completion_id, new_response_id
from inference.openai.output_defaults import filled_sampling
from inference.openai.protocol import ChatRequest, CompletionRequest
from inference.openai.rendering import ChatRendering, CompletionRendering
from inference.openai.responses.protocol import ResponseRequest
from inference.openai.responses.rendering import ResponseRendering, response_members
from inference.services.constraints import ConstraintDesk
from inference.services.embeddings import EmbeddingService
from inference.services.engines import EngineLoader
from inference.services.entrance import Entrance
from inference.services.generation import GenerationService
from inference.services.maintenance_gate import MaintenanceGate
from inference.services.model_catalog import ServedModel
from inference.services.prompt_pool import PromptPool
from inference.services.tokenization import TokenizationService
from inference.streaming.lifecycle import RequestIdentity, RequestLifecycle
from inference.streaming.sessions import SessionRegistry, SessionStatistics

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
    """What the runtime needs to know of the service's settings.

    `drain_grace_s`: how long those who use a model may go on when it is unloaded.
    """

    strict_fields: bool = False
    has_shared_prefixes: bool = False
    allows_gbnf: bool = False
    drain_grace_s: float = 20.0
    session_header: str = ""
    """The one header that names a trusted session, in lower case; empty: none does."""
    time_limits: TimeLimits = field(default_factory=TimeLimits)
    serving: ServingSettings = field(default_factory=ServingSettings)


@dataclass(frozen=True, slots=True)
class Readiness:
    """What /readyz says. `reasons` name what is in the way, or what is away but not needed.

    `status` is ready, degraded, unavailable (waiting helps) or failed (only a new process does).
    `causes` are for those who run the service alone: they may name models, files and sizes.
    """

    is_ready: bool
    status: str
    reasons: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RuntimeStatistics:
    """What is held right now; all of it is back to nothing when nobody generates. `models` are by id, of
    those that are loaded."""

    models: Mapping[str, ModelStatistics]
    sessions: SessionStatistics
    ledger: LedgerStatistics


Probe = Callable[[], Awaitable[bool]]


def _never() -> bool:
    return False


class Runtime:
    """See the module. `database_probe` and `broker_probe` answer quickly and do not raise. `is_repairable`:
    whether who runs the service would rather repair a model's row while it runs, so that a process without
    any model that works has a use; otherwise that ends the process. `hook_desk` opens each generating
    request's exchange with the policies, None where there are no such things."""

    def __init__(
        self,
        settings: RuntimeSettings,
        *,
        store: ModelStore,
        sources: ModelSources,
        sizes: SizeModel,
        loader: EngineLoader,
        recorder: Recorder,
        ledger: Ledger,
        answer_keeping: AnswerKeeping,
        clock: Clock,
        database_probe: Probe,
        broker_probe: Probe,
        is_repairable: Callable[[], bool] = _never,
        hook_desk: HookDesk | None = None,
    ) -> None:
        self.settings = settings
        self.hook_desk = hook_desk
        self._is_repairable = is_repairable
        self._phase = RuntimeState.IDLE
        self._recorder = recorder
        self._ledger = ledger
        self.answer_keeping = answer_keeping
        self._clock = clock
        self._database_probe = database_probe
        self._broker_probe = broker_probe
        workshop = ModelWorkshop(
            settings.serving, loader=loader, sources=sources, sizes=sizes, recorder=recorder, clock=clock
        )
        self.fleet = Fleet(store, workshop, clock=clock, drain_grace_s=settings.drain_grace_s)
        self.maintenance = MaintenanceGate(recorder=recorder, clock=clock)
        self.sessions = SessionRegistry()
        self._prompt_pool = ThreadPoolExecutor(PROMPT_THREADS, thread_name_prefix="prompt")
        prompt_pool = PromptPool(self._prompt_pool, num_threads=PROMPT_THREADS)
        self._constraints = ConstraintDesk(allows_gbnf=settings.allows_gbnf)
        self.generation = GenerationService(
            prompt_pool=prompt_pool,
            entrance=Entrance(sessions=self.sessions, clock=clock, limits=settings.time_limits),
            constraints=self._constraints,
            has_shared_prefixes=settings.has_shared_prefixes,
            max_token_gap_s=settings.time_limits.token_gap_s or None,
        )
        self.tokenization = TokenizationService(prompt_pool=prompt_pool)
        self.embeddings = EmbeddingService(prompt_pool=prompt_pool)

    # -- life -------------------------------------------------------------------------------------

    @property
    def state(self) -> RuntimeState:
        if self._phase is not RuntimeState.READY:
            return self._phase
        condition = self.fleet.condition()
        if condition.is_serving:
            return RuntimeState.READY
        has_failed = condition.is_lost or condition.has_failed
        return RuntimeState.FAILED if has_failed else RuntimeState.LOADING

    @property
    def must_end(self) -> str:
        """Why only a new process can serve again; empty where this one has a use."""
        if self._phase is not RuntimeState.READY:
            return ""
        condition = self.fleet.condition()
        if condition.is_lost:
            return "; ".join(condition.causes) or "the engine has stopped"
        if condition.has_failed and not self._is_repairable():
            return RuntimeState.FAILED.value
        return ""

    async def start(self) -> None:
        """Begin to load; returns at once, so that the server answers 503 meanwhile."""
        self._phase = RuntimeState.READY
        self.fleet.start()

    def watch(self) -> None:
        """Look whether all engines make progress, every second or so."""
        self.fleet.watch()

    def begin_drain(self) -> None:
        """No newcomers from now on; what waits is answered at once, what runs goes on."""
        self._phase = RuntimeState.DRAINING
        error = ServiceUnavailable("The service is shutting down.", reason=RejectionReason.DRAINING)
        self.sessions.close(error)
        self.fleet.begin_drain(error)

    def begin_stop(self) -> None:
        """The grace time is over: whoever still generates gets an error in-band, at once."""
        self.fleet.begin_stop()

    async def stop(self) -> None:
        """Stop the engines (running requests get an error) and give everything back."""
        await self.fleet.stop()
        self._prompt_pool.shutdown(wait=False, cancel_futures=True)
        self._constraints.close()
        self._phase = RuntimeState.STOPPED

    # -- for the doors ----------------------------------------------------------------------------

    def check_ready(self) -> None:
        """Raises ServiceUnavailable while nothing can be generated, whatever is asked for."""
        if self._phase is not RuntimeState.READY:
            raise ServiceUnavailable(f"The service cannot generate now: {self._phase.value}.")

    async def lease(
        self, name: str | None, principal: Principal, *, timeout_s: float | None = None
    ) -> ModelLease:
        """A model to use; None is the default one. One that loads on demand is waited for, as long as a
        request may wait for its lane (`timeout_s`: or less, where it wishes so). Raises ModelNotFound and
        ServiceUnavailable."""
        self.check_ready()
        limits = self.settings.time_limits
        limits_s = [limits.admission_s or None, limits.of_request(timeout_s)]
        limit_s = min([limit for limit in limits_s if limit is not None], default=None)
        return await self.fleet.acquire(name, principal, limit_s=limit_s)

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

    def chat_rendering(self, request: ChatRequest, model: ServedModel) -> ChatRendering:
        description = model.description
        return ChatRendering(
            id=new_chat_completion_id(),
            created=int(self._clock.unix_time()),
            model=description.id,
            fingerprint=description.fingerprint,
            wants_usage=request.wants_usage,
            wants_logprobs=request.num_top_logprobs is not None,
            offers_tools=bool(request.tool_use.callable_tools),
        )

    def response_rendering(
        self, request: ResponseRequest, model: ServedModel, *, is_stored: bool
    ) -> ResponseRendering:
        description = model.description
        members = response_members(
            request,
            id=new_response_id(),
            created=int(self._clock.unix_time()),
            model=description.id,
            sampling=filled_sampling(request.sampling, model.defaults.chat.output.sampling).resolve(
                description.sampling_defaults
            ),
            is_stored=is_stored,
        )
        return ResponseRendering(members=members, now=self._clock.unix_time)

    def completion_rendering(self, request: CompletionRequest, model: ServedModel) -> CompletionRendering:
        description = model.description
        return CompletionRendering(
            id=new_completion_id(),
            created=int(self._clock.unix_time()),
            model=description.id,
            fingerprint=description.fingerprint,
            wants_usage=request.wants_usage,
            wants_logprobs=request.num_top_logprobs is not None,
        )

    def statistics(self) -> RuntimeStatistics:
        return RuntimeStatistics(
            self.fleet.statistics(), self.sessions.statistics(), self._ledger.statistics()
        )

    async def readiness(self) -> Readiness:
        """Ready needs a model that answers, a journal that can be written and the database; without the
        broker, or with a model that has failed, it is only degraded."""
        if self._phase is not RuntimeState.READY:
            return Readiness(False, "unavailable", (self._phase.value,))
        condition = self.fleet.condition()
        if not condition.is_serving or condition.is_lost:
            return self._without_models(condition)
        if self._ledger.fault is not None:
            return Readiness(False, "unavailable", (f"records cannot be kept: {self._ledger.fault}",))
        has_database, has_broker = await asyncio.gather(self._database_probe(), self._broker_probe())
        if not has_database:
            return Readiness(False, "unavailable", ("the database does not answer",))
        reasons = []
        # Whoever tests before he opens comes the same way as everybody, and so does the console.
        if self.maintenance.now.is_on:
            reasons.append("under maintenance: new requests are refused")
        if not has_broker:
            reasons.append("the broker does not answer")
        if condition.failures:
            reasons.append(f"{len(condition.failures)} of {condition.num_models} models cannot be used")
        return Readiness(True, "degraded" if reasons else "ready", tuple(reasons), condition.causes)

    def _without_models(self, condition: FleetCondition) -> Readiness:
        """Nothing can be generated, or not for long."""
        causes = condition.causes
        if condition.is_lost:
            return Readiness(False, "failed", ("the engine has stopped",), causes)
        if condition.has_failed:
            status = "unavailable" if self._is_repairable() else "failed"
            return Readiness(False, status, (RuntimeState.FAILED.value,), causes)
        if condition.is_read and not condition.num_models:
            return Readiness(False, "unavailable", ("no model is set up",))
        return Readiness(False, "unavailable", (RuntimeState.LOADING.value,), causes)
