"""The real doors, services and runtime around a scripted engine; accounts are a dictionary."""

from __future__ import annotations

import ipaddress
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from channels.routing import URLRouter

from accounts.contracts import AccountsUnavailable, KeyLookup, KeyState, Principal
from accounts.keys import mint
from accounts.limits.ceiling import Ceiling
from accounts.limits.desk import SharedLimitDesk
from inference.api.authentication import Authenticator
from inference.api.metrics import MetricsAccess
from inference.domain.admission_events import AdmissionEvent
from inference.domain.clock import SystemClock
from inference.domain.kept_answers import AnswerKeeping
from inference.domain.model_settings import ModelSettings
from inference.domain.outcomes import RequestSummary
from inference.domain.phases import PhaseEvent
from inference.domain.time_limits import TimeLimits
from inference.hosting.workshop import ServingSettings
from inference.openai.chat_defaults import ChatDefaults
from inference.prompting.prompt import PromptPolicy
from inference.routing import Watching, api_routes
from inference.runtime import Runtime, RuntimeSettings
from inference.services.engines import EngineLoader
from inference.telemetry.pipeline import TelemetryPipeline
from inference.telemetry.prometheus import RequestMetrics
from tests.asgi import Exchange, exchange
from tests.clocks import FakeClock
from tests.kept_answers import MemoryKeeping
from tests.ledgers import MemoryLedger
from tests.limit_store import MemoryLimitStore, SharedCounters
from tests.scripted_engine import ScriptedEngine, ScriptedLoader, no_files, small_sizes
from tests.scripted_fleet import MemoryModelStore
from tests.scripted_usage import ScriptedUsageDesk

KEY = mint().plaintext
PRINCIPAL = Principal(user_id=1, username="ada", key_id=7, key_name="test")
SCRIPTED = ModelSettings(row_id=1, revision=1, id="scripted", source="scripted.gguf")


@dataclass
class Site:
    """Everything that a test of a door may want to look at."""

    engine: ScriptedEngine = field(default_factory=ScriptedEngine)
    records: list[RequestSummary] = field(default_factory=list)
    events: list[AdmissionEvent] = field(default_factory=list)
    phases: list[PhaseEvent] = field(default_factory=list)
    ledger: MemoryLedger = field(default_factory=MemoryLedger)
    kept: MemoryKeeping = field(default_factory=MemoryKeeping)
    keys: dict[str, KeyLookup] = field(default_factory=lambda: {KEY: KeyLookup(KeyState.VALID, PRINCIPAL)})
    has_accounts: bool = True
    has_database: bool = True
    has_broker: bool = True
    used_keys: list[int] = field(default_factory=list)
    max_body_bytes: int = 1_000_000
    strict_fields: bool = False
    has_shared_prefixes: bool = False
    session_header: str = ""
    time_limits: TimeLimits = field(default_factory=TimeLimits)
    usage: ScriptedUsageDesk = field(default_factory=ScriptedUsageDesk)
    metrics_readers: list[Principal] = field(default_factory=list)
    load_failure: Exception | None = None
    loader: EngineLoader | None = None
    watchdog_s: float = 0.0
    chat_defaults: ChatDefaults = field(default_factory=ChatDefaults)
    prompt_policy: PromptPolicy = field(default_factory=PromptPolicy)
    limit_clock: FakeClock = field(default_factory=FakeClock)
    models: tuple[ModelSettings, ...] = (SCRIPTED,)

    def __post_init__(self) -> None:
        self.runtime = Runtime(
            RuntimeSettings(
                strict_fields=self.strict_fields,
                has_shared_prefixes=self.has_shared_prefixes,
                session_header=self.session_header,
                time_limits=self.time_limits,
                serving=ServingSettings(
                    watchdog_s=self.watchdog_s,
                    chat_defaults=self.chat_defaults,
                    prompt_policy=self.prompt_policy,
                ),
            ),
            store=MemoryModelStore(*self.models),
            sources=no_files,
            sizes=small_sizes,
            loader=self.loader or ScriptedLoader(self.engine, failure=self.load_failure),
            recorder=self,
            ledger=self.ledger,
            answer_keeping=AnswerKeeping(self.kept, self.kept, self.kept),
            clock=SystemClock(),
            database_probe=self._database,
            broker_probe=self._broker,
        )
        self.metrics = RequestMetrics(self.runtime.fleet.known_ids)
        self.limit_store = MemoryLimitStore(SharedCounters(), clock=self.limit_clock)
        self.limit_desk = SharedLimitDesk(
            self.limit_store,
            ceiling=Ceiling(max_requests_per_minute=1_000_000, max_tokens_per_minute=1_000_000),
            clock=self.limit_clock,
        )
        routes = api_routes(
            runtime=self.runtime,
            limit_desk=self.limit_desk,
            authenticator=Authenticator(
                self._look_up, self.used_keys.append, note_refusal=self.metrics.note_refused_key
            ),
            watching=Watching(
                self.metrics,
                TelemetryPipeline((), clock=SystemClock()),
                MetricsAccess((ipaddress.ip_network("127.0.0.0/8"),), self.metrics_readers.__contains__),
            ),
            usage=self.usage,
            max_body_bytes=self.max_body_bytes,
        )
        self.app = URLRouter(routes)

    def record(self, summary: RequestSummary) -> None:
        self.records.append(summary)
        self.metrics.record(summary)

    def record_event(self, event: AdmissionEvent | PhaseEvent) -> None:
        if isinstance(event, PhaseEvent):
            self.phases.append(event)
        else:
            self.events.append(event)
        self.metrics.record_event(event)

    async def _look_up(self, key: str) -> KeyLookup:
        if not self.has_accounts:
            raise AccountsUnavailable
        return self.keys.get(key, KeyLookup(KeyState.UNKNOWN))

    async def _database(self) -> bool:
        return self.has_database

    async def _broker(self) -> bool:
        return self.has_broker

    def headers(self, **more: str) -> dict[str, str | bytes]:
        return {"authorization": f"Bearer {KEY}", "content-type": "application/json", **more}

    async def get(self, path: str, **more: str) -> Exchange:
        return await exchange(self.app, "GET", path, headers=self.headers(**more))

    async def post(self, path: str, body: bytes, **more: str) -> Exchange:
        return await exchange(self.app, "POST", path, body, headers=self.headers(**more))

    def open(self, path: str, body: bytes, **more: str) -> Exchange:
        """A request that the test goes on with."""
        started = Exchange(self.app, "POST", path, headers=self.headers(**more))
        started.send(body)
        return started


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = Site()
    await started(made)
    yield made
    await made.runtime.stop()


async def started(site: Site) -> None:
    """Start the runtime and wait until it has loaded (or failed to)."""
    import asyncio

    await site.runtime.start()
    while site.runtime.state.name == "LOADING":
        await asyncio.sleep(0)
