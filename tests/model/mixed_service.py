"""The whole service in this process, on a tiny model, with an engine in which things go wrong.

Doors, services, admission, engine and llama.cpp are the real ones; accounts are a list of keys. The
pool of cells is smaller than admission believes, so cells run out again and again; steps fail, are
aborted, or find no cells without a reason; and a batch with a poisoned request in it always fails.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

from channels.routing import URLRouter

from accounts.contracts import KeyLookup, KeyState, Principal
from accounts.keys import mint
from accounts.limits.ceiling import Ceiling
from accounts.limits.desk import SharedLimitDesk
from inference.admission.controller import AdmissionController
from inference.api.authentication import Authenticator
from inference.api.metrics import MetricsAccess
from inference.domain.admission_events import AdmissionEvent
from inference.domain.clock import SystemClock
from inference.domain.kept_answers import AnswerKeeping
from inference.domain.ledger import LiveRequest
from inference.domain.media import MediaProjector
from inference.domain.model_settings import ModelSettings
from inference.domain.outcomes import RequestSummary
from inference.domain.phases import PhaseEvent
from inference.engine.client import Admission, EngineClient
from inference.engine.config import EngineConfig
from inference.engine.llama import LlamaConstraintCompiler, LlamaModel, LlamaRunner
from inference.engine.load_order import LoadOrder
from inference.engine.local import LocalEngine
from inference.engine.plan import StepOutcome, StepPlan, StepResult
from inference.engine.stats import EngineStatistics
from inference.engine.thread import EngineThread
from inference.hosting.loaded_model import LoadedModel
from inference.hosting.workshop import ModelSizes
from inference.routing import Watching, api_routes
from inference.runtime import Runtime, RuntimeSettings, RuntimeState
from inference.telemetry.pipeline import TelemetryPipeline
from inference.telemetry.prometheus import RequestMetrics
from tests.asgi import Exchange
from tests.clocks import FakeClock
from tests.kept_answers import MemoryKeeping
from tests.ledgers import MemoryLedger
from tests.limit_store import MemoryLimitStore, SharedCounters
from tests.model.mixed_requests import POISONED, MixedRequest
from tests.scripted_engine import no_files
from tests.scripted_fleet import MemoryModelStore
from tests.scripted_usage import ScriptedUsageDesk

PATIENCE_S = 50.0
# Of a hundred steps of several sequences, so many meet each kind of trouble.
TROUBLE_PERCENT = 1.5


class TroubledRunner(LlamaRunner):
    """Fails now and then, before it computes or after; never for one innocent sequence alone, so that
    an innocent request that fails is the engine's fault."""

    def __init__(self, model: LlamaModel, config: EngineConfig, seed: int) -> None:
        self.num_troubles = dict.fromkeys(["raised", "failed", "lost", "aborted", "no cells", "poisoned"], 0)
        self._random = random.Random(seed)
        super().__init__(model, config)

    def run(self, plan: StepPlan) -> StepResult:
        sequences = plan.sequences
        if any(one.request.request_id.startswith(POISONED) and one.num_generated for one in sequences):
            self.num_troubles["poisoned"] += 1
            return StepResult(StepOutcome.FAILED)
        kind = int(self._random.random() * 100 / TROUBLE_PERCENT)
        if len(sequences) < 2 or kind > 4:
            return super().run(plan)
        name = list(self.num_troubles)[kind]
        self.num_troubles[name] += 1
        if name == "raised":
            raise OSError("made up by the test")
        if name == "lost":
            super().run(plan)
        if name in ("failed", "lost"):
            return StepResult(StepOutcome.FAILED)
        return StepResult(StepOutcome.ABORTED if name == "aborted" else StepOutcome.NO_CELLS)


class TroubledLoader:
    """An EngineLoader; what it made can be looked into."""

    def __init__(
        self,
        model_path: Path,
        config: EngineConfig,
        *,
        num_promised_cells: int,
        seed: int,
        make_projector: Callable[[LlamaModel], MediaProjector] | None = None,
    ) -> None:
        self._make_projector = make_projector
        self._model_path = model_path
        self._config = config
        self._num_promised_cells = num_promised_cells
        self._seed = seed
        self.runner: TroubledRunner
        self.thread: EngineThread
        self.client: EngineClient

    async def load(self, order: LoadOrder, admit: Callable[[int], Admission]) -> LocalEngine:
        model = await asyncio.to_thread(LlamaModel.load, self._model_path, self._config)
        admission = admit(self._num_promised_cells)

        def make_runner() -> LlamaRunner:
            self.runner = TroubledRunner(model, self._config, self._seed)
            return self.runner

        self.thread = EngineThread(make_runner, self._config, admission, SystemClock())
        self.client = EngineClient(self.thread, admission)
        await self.client.start()
        projector = None if self._make_projector is None else self._make_projector(model)
        constraints = LlamaConstraintCompiler(model.tokenizer)
        description = model.description("tiny")
        return LocalEngine(
            description,
            model.tokenizer,
            constraints=constraints,
            thread=self.thread,
            client=self.client,
            projector=projector,
        )


class ForgetfulLedger(MemoryLedger):
    """Says of each request that it is recorded, and keeps nothing: what is left afterwards is counted."""

    def open(self, live: LiveRequest) -> None:
        pass

    def note(self, live: LiveRequest) -> None:
        pass

    def record(self, summary: RequestSummary) -> asyncio.Future[None]:
        safe: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        safe.set_result(None)
        return safe

    def hurry(self) -> None:
        pass


class MixedService:
    """Use as an async context manager."""

    def __init__(
        self,
        model_path: Path,
        config: EngineConfig,
        *,
        num_users: int,
        seed: int,
        make_projector: Callable[[LlamaModel], MediaProjector] | None = None,
    ) -> None:
        self._keys = [mint().plaintext for _ in range(num_users)]
        self._principals = {
            key: KeyLookup(KeyState.VALID, Principal(user, f"user{user}", user, "test"))
            for user, key in enumerate(self._keys)
        }
        self.records: list[RequestSummary] = []
        self.loader = TroubledLoader(
            model_path,
            config,
            num_promised_cells=4 * config.num_cells,
            seed=seed,
            make_projector=make_projector,
        )
        kept = MemoryKeeping()
        self.runtime = Runtime(
            RuntimeSettings(),
            store=MemoryModelStore(ModelSettings(row_id=1, revision=1, id="tiny", source="tiny.gguf")),
            sources=no_files,
            sizes=lambda settings: ModelSizes(engine=config, max_waiting=2 * config.num_lanes),
            loader=self.loader,
            recorder=self,
            ledger=ForgetfulLedger(),
            answer_keeping=AnswerKeeping(kept, kept, kept),
            clock=SystemClock(),
            database_probe=self._is_there,
            broker_probe=self._is_there,
        )
        authenticator = Authenticator(self._look_up, lambda key_id: None)
        # A minute's window holds each of its seconds: here it is always the same one.
        clock = FakeClock()
        limit_desk = SharedLimitDesk(
            MemoryLimitStore(SharedCounters(), clock=clock),
            ceiling=Ceiling(max_requests_per_minute=1_000_000, max_tokens_per_minute=100_000_000),
            clock=clock,
        )
        routes = api_routes(
            runtime=self.runtime,
            authenticator=authenticator,
            limit_desk=limit_desk,
            watching=Watching(
                RequestMetrics(lambda: []),
                TelemetryPipeline((), clock=SystemClock()),
                MetricsAccess((), lambda principal: False),
            ),
            usage=ScriptedUsageDesk(),
            max_body_bytes=1_000_000,
        )
        self._app = URLRouter(routes)

    async def __aenter__(self) -> MixedService:
        await self.runtime.start()
        async with asyncio.timeout(PATIENCE_S):
            while self.runtime.state is RuntimeState.LOADING:
                await asyncio.sleep(0.01)
        assert self.runtime.state is RuntimeState.READY
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.runtime.stop()

    async def _look_up(self, key: str) -> KeyLookup:
        return self._principals.get(key, KeyLookup(KeyState.UNKNOWN))

    async def _is_there(self) -> bool:
        return True

    def record(self, summary: RequestSummary) -> None:
        self.records.append(summary)

    def record_event(self, event: AdmissionEvent | PhaseEvent) -> None:
        """What admission decides is no record of a request."""

    def open(self, request: MixedRequest) -> Exchange:
        headers: dict[str, str | bytes] = {
            "authorization": f"Bearer {self._keys[request.user]}",
            "content-type": "application/json",
            "x-request-id": request.id,
        }
        opened = Exchange(self._app, "POST", request.path, headers=headers)
        opened.send(request.payload)
        return opened

    @property
    def served(self) -> LoadedModel:
        (loaded,) = self.runtime.fleet.loaded()
        return loaded

    @property
    def engine(self) -> EngineStatistics:
        return self.loader.thread.statistics

    @property
    def admission(self) -> AdmissionController:
        return self.served.admission

    async def until_idle(self) -> None:
        """The engine takes back what was cancelled in its next step; nothing but that is waited for."""
        async with asyncio.timeout(PATIENCE_S):
            while not self.engine.is_idle or self.admission.statistics().num_granted:
                await asyncio.sleep(0.01)

    def check_nothing_is_held(self) -> None:
        """While idle: all that counts what runs or waits is zero, and the layers agree with each other."""
        engine, admission = self.engine, self.admission.statistics()
        assert engine.lanes.num_used == engine.num_cells_used == 0, engine
        assert engine.num_prefilling == engine.num_decoding == engine.num_preempted == 0, engine
        assert engine.num_waiting_for_prefix == 0, engine
        assert admission.queue.num_waiting == 0, admission
        assert admission.num_granted == admission.budget.num_reservations == 0, admission
        assert admission.budget.num_reserved_tokens == 0, admission
        self.admission.check_integrity()
        core, runner = self.loader.thread._core, self.loader.runner
        assert core is not None
        core.check_integrity()
        assert not core._active and not runner._samplers
        assert not self.loader.client._open and not self.loader.client._outbox
        context, ledger = runner._context, core._memory._cache._ledger
        cells = {one: context.last_position(one) + 1 for one in range(context._num_sequences)}
        kept = {one: length for one, length in ledger._lengths.items() if length}
        assert {one: length for one, length in cells.items() if length} == kept
