"""The service closed to newcomers: who is refused and how, who is let in, and what goes on."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from inference.domain.maintenance import DEFAULT_MESSAGE, DEFAULT_RETRY_AFTER_S, OPEN, Maintenance
from inference.domain.outcomes import Outcome
from inference.domain.rejection_reason import RejectionReason
from tests.scripted_engine import ScriptedHandle
from tests.unit.api.conftest import PRINCIPAL, Site

CHAT = "/v1/chat/completions"
MESSAGE = "New disks until \u00e9ight."
CLOSED = Maintenance(is_on=True, message=MESSAGE)


def body(**fields: Any) -> bytes:
    chat = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}], **fields}
    return orjson.dumps(chat)


async def handle_of(site: Site, number: int = 0) -> ScriptedHandle:
    async with asyncio.timeout(5):
        while len(site.engine.handles) <= number:
            await asyncio.sleep(0)
    return site.engine.handles[number]


def close(site: Site, said: Maintenance = CLOSED) -> None:
    site.runtime.maintenance.take(said, site.ledger.live.values())


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        (CHAT, {}),
        (CHAT, {"stream": True}),
        ("/v1/completions", {"prompt": "x", "messages": None}),
        ("/v1/responses", {"input": "x", "messages": None}),
        ("/v1/embeddings", {"input": "x", "messages": None}),
        ("/v1/rerank", {"query": "x", "documents": ["y"], "messages": None}),
        ("/v1/messages", {"max_tokens": 5}),
    ],
)
async def test_a_newcomer_is_refused_and_recorded_once(site: Site, path: str, fields: dict[str, Any]) -> None:
    close(site)
    sent = {name: value for name, value in orjson.loads(body(**fields)).items() if value is not None}
    answer = await site.post(path, orjson.dumps(sent))
    told = answer.json()["error"]
    assert (answer.status, told["message"]) == (503, MESSAGE)
    assert answer.headers["retry-after"] == str(DEFAULT_RETRY_AFTER_S)
    assert told["type"] == ("api_error" if path == "/v1/messages" else "server_error")
    assert path == "/v1/messages" or told["code"] == "maintenance"
    (record,) = site.records
    assert (record.outcome, record.status, record.error_code) == (Outcome.REJECTED, 503, "maintenance")
    assert (record.rejection_reason, record.model) == (RejectionReason.MAINTENANCE, "scripted")
    assert not site.engine.handles and not site.ledger.live


async def test_what_generates_nothing_goes_on_and_it_is_told(site: Site) -> None:
    site.metrics_readers.append(PRINCIPAL)
    close(site)
    assert (await site.get("/v1/models")).status == 200
    assert (await site.post("/v1/tokenize", b'{"model":"scripted","prompt":"x"}')).status == 200
    ready = await site.get("/readyz")
    assert (ready.status, ready.json()["status"]) == (200, "degraded")
    assert any("maintenance" in reason for reason in ready.json()["reasons"])
    await site.post(CHAT, body())
    numbers = (await site.get("/metrics")).body.decode()
    assert "skippy_maintenance 1.0" in numbers
    assert 'skippy_admission_rejections_total{reason="maintenance"} 1.0' in numbers
    close(site, OPEN)
    assert "skippy_maintenance 0.0" in (await site.get("/metrics")).body.decode()
    assert (await site.get("/readyz")).json()["status"] == "ready"


async def test_a_key_and_a_body_are_looked_at_first(site: Site) -> None:
    close(site)
    assert (await site.post(CHAT, body(), authorization="Bearer nothing")).status == 401
    assert (await site.post(CHAT, body(temperature=9))).status == 400
    assert [record.error_code for record in site.records] == ["invalid_value"]


@pytest.mark.parametrize(
    "let",
    [{"let_user_ids": frozenset({PRINCIPAL.user_id})}, {"let_key_ids": frozenset({PRINCIPAL.key_id})}],
)
async def test_who_is_let_through_is_served(site: Site, let: dict[str, frozenset[int]]) -> None:
    close(site, Maintenance(is_on=True, refuses_queued=True, **let))
    started = site.open(CHAT, body())
    (await handle_of(site)).start().say("Hal").finish()
    await started.answer()
    assert started.status == 200


async def test_what_runs_and_what_waits_goes_on(site: Site) -> None:
    running, waiting = site.open(CHAT, body(stream=True)), site.open(CHAT, body())
    (await handle_of(site)).start().say("Hal")
    await handle_of(site, 1)
    close(site)
    site.engine.handles[0].finish()
    site.engine.handles[1].start().say("lo").finish()
    await running.answer()
    await waiting.answer()
    assert (running.status, waiting.status) == (200, 200)
    assert running.events()[-1] == "[DONE]"


async def test_what_waits_is_refused_where_that_is_wished(site: Site) -> None:
    running, waiting = site.open(CHAT, body(stream=True)), site.open(CHAT, body())
    (await handle_of(site)).start().say("Hal")
    await running.until(lambda: b"Hal" in running.body)
    await handle_of(site, 1)
    close(site, Maintenance(is_on=True, refuses_queued=True))
    await waiting.answer()
    assert (waiting.status, waiting.json()["error"]["message"]) == (503, DEFAULT_MESSAGE)
    (record,) = site.records
    assert (record.outcome, record.rejection_reason) == (Outcome.REJECTED, RejectionReason.MAINTENANCE)
    assert site.engine.handles[1].is_cancelled and not site.engine.handles[0].is_cancelled
    site.engine.handles[0].finish()
    await running.answer()
    assert running.events()[-1] == "[DONE]"


def test_when_to_come_back() -> None:
    until = datetime(2026, 11, 30, 12, tzinfo=UTC)
    said = Maintenance(is_on=True, until=until)

    def retry_after_s(before: timedelta) -> int | None:
        return said.refusal(unix_time=(until - before).timestamp()).retry_after_s

    assert retry_after_s(timedelta(minutes=10, milliseconds=1)) == 601
    # A promise that was not kept opens nothing.
    assert retry_after_s(timedelta(0)) == retry_after_s(-timedelta(days=1)) == DEFAULT_RETRY_AFTER_S
