"""Requests for models that are not loaded, through the real doors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from inference.admission.controller import AdmissionController
from inference.domain.errors import RequestCancelled
from inference.domain.events import FinishReason
from inference.domain.model_settings import LoadPolicy, ModelAccess, ModelSettings, ModelState
from inference.domain.outcomes import Outcome
from inference.domain.time_limits import TimeLimits
from inference.engine.load_error import ModelLoadError
from inference.engine.load_order import LoadOrder
from tests.scripted_engine import ScriptedEngine, ScriptedHandle
from tests.scripted_fleet import ADA, until
from tests.unit.api.conftest import SCRIPTED, Site, started

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
DEMAND = ModelSettings(
    row_id=2, revision=1, id="demand", aliases=("d",), source="d.gguf", load_policy=LoadPolicy.ON_DEMAND
)
HIDDEN = replace(DEMAND, row_id=3, id="hidden", aliases=(), access=ModelAccess(is_open=False))


def speak(handle: ScriptedHandle) -> None:
    handle.start().say("text").finish(FinishReason.STOP)


class SlowLoader:
    """Loads the first model at once, others when `gate` is set, or fails with `failure`."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.failure: Exception | None = None
        self.engines: dict[str, ScriptedEngine] = {}

    async def load(self, order: LoadOrder, admit: Callable[[int], AdmissionController]) -> ScriptedEngine:
        if order.settings.id != SCRIPTED.id:
            await self.gate.wait()
            if self.failure is not None:
                raise self.failure
        engine = ScriptedEngine(speak)
        self.engines[order.settings.id] = engine
        admit(engine.description.num_cells)
        return engine


def body(path: str, **fields: object) -> bytes:
    said: dict[str, object] = {"model": "demand", **fields}
    if path == COMPLETIONS:
        said["prompt"] = "hi"
    elif path == "/v1/responses":
        said["input"] = "hi"
    else:
        said["messages"] = [{"role": "user", "content": "hi"}]
        said["max_tokens"] = 4
    return json.dumps(said).encode()


@asynccontextmanager
async def serving(loader: SlowLoader, **limits: float) -> AsyncIterator[Site]:
    site = Site(loader=loader, models=(SCRIPTED, DEMAND, HIDDEN), time_limits=TimeLimits(**limits))
    await started(site)
    try:
        yield site
    finally:
        loader.gate.set()
        await site.runtime.stop()


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, "/v1/responses", "/v1/messages"])
async def test_a_request_waits_for_its_model_and_is_recorded_under_its_id(path: str) -> None:
    loader = SlowLoader()
    async with serving(loader) as site:
        asked = site.open(path, body(path, model="d"))
        await until(lambda: site.runtime.fleet.statuses()[1].state.value == "loading")
        loader.gate.set()
        answer = await asked.answer()
        assert answer.status == 200, answer.body
        assert answer.json()["model"] == "demand"
        await until(lambda: site.ledger.records)
        assert site.ledger.records[-1].model == "demand"
        assert all(not loaded.leases.num_held for loaded in site.runtime.fleet.loaded())


async def test_who_waits_too_long_is_503_and_who_leaves_waits_for_nothing() -> None:
    loader = SlowLoader()
    async with serving(loader, admission_s=0.05) as site:
        answer = await site.post(CHAT, body(CHAT))
        assert (answer.status, answer.json()["error"]["code"]) == (503, "service_unavailable")
        assert int(answer.headers["retry-after"]) >= 1
        assert "still being loaded" in answer.json()["error"]["message"]
        loader.gate.set()
        await until(lambda: site.runtime.fleet.statuses()[1].state.value == "ready")
        assert (await site.post(CHAT, body(CHAT))).status == 200


@pytest.mark.parametrize("is_stream", [True, False])
async def test_an_operator_may_cancel_who_waits_for_a_model_and_the_load_goes_on(is_stream: bool) -> None:
    loader = SlowLoader()
    async with serving(loader) as site:
        asked = site.open(CHAT, body(CHAT, stream=is_stream))
        model = site.runtime.fleet.find("demand", ADA)
        await until(lambda: model._waiters.num_waiting)
        (live,) = site.ledger.live.values()
        assert live.interrupt(RequestCancelled("The request was cancelled by an operator."))
        answer = await asked.answer()
        assert (answer.status, answer.json()["error"]["code"]) == (499, "request_cancelled")
        await until(lambda: site.ledger.records)
        (record,) = site.ledger.records
        assert (record.outcome, record.model, record.usage) == (Outcome.CANCELLED, "demand", None)
        assert not model._waiters.num_waiting
        loader.gate.set()
        await until(lambda: model.state is ModelState.READY)
        assert model.loaded is not None and not model.loaded.leases.num_held
        assert not loader.engines["demand"].handles


@pytest.mark.parametrize(
    ("path", "told"),
    [
        (CHAT, b'data: {"error":'),
        ("/v1/responses", b'event: error\ndata: {"type":"error","code":"service_unavailable"'),
        ("/v1/messages", b'event: error\ndata: {"type":"error"'),
    ],
)
async def test_a_stream_that_waits_has_its_headers_early_and_is_told_in_band(path: str, told: bytes) -> None:
    loader = SlowLoader()
    loader.failure = ModelLoadError("no such file")
    async with serving(loader, early_headers_s=0.02, keep_alive_s=0.02) as site:
        asked = site.open(path, body(path, stream=True))
        await until(lambda: b"keep-alive" in asked.body or b"ping" in asked.body)
        loader.gate.set()
        answer = await asked.answer()
        assert answer.status == 200
        assert told in answer.body
        assert b"no such file" not in answer.body


async def test_models_are_listed_with_their_state_and_hidden_ones_do_not_exist() -> None:
    loader = SlowLoader()
    async with serving(loader) as site:
        listed = (await site.get("/v1/models")).json()["data"]
        assert [(model["id"], model["state"]) for model in listed] == [
            ("scripted", "ready"),
            ("demand", "unloaded"),
        ]
        assert set(listed[1]) >= {"id", "object", "created", "owned_by"}
        assert "context_length" in listed[0] and "context_length" not in listed[1]
        assert (await site.get("/v1/models/d")).json()["id"] == "demand"
        assert (await site.get("/v1/models/hidden")).status == 404
        for path in (CHAT, COMPLETIONS, "/v1/tokenize"):
            answer = await site.post(path, body(path, model="hidden"))
            assert (answer.status, answer.json()["error"]["code"]) in {
                (404, "model_not_found"),
                (400, "invalid_value"),  # tokenize reads no max_tokens, and says so first
            }
        loader.gate.set()
