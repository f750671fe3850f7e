"""The wait for a lane, and all that may end it: deadlines, sessions, drains, clients that leave."""

import asyncio
import json
import time
from dataclasses import replace

import pytest

from accounts.contracts import KeyLookup, KeyPriority, KeyState
from inference.domain.admission_events import FrameKind, LaneFreed, ReceiverOutcome
from inference.domain.errors import ServerOverloaded
from inference.domain.events import FinishReason
from inference.domain.outcomes import Outcome
from inference.domain.priority import PriorityClass
from inference.domain.rejection_reason import RejectionReason
from inference.domain.time_limits import TimeLimits
from inference.streaming.sessions import SessionStatistics, session_key
from tests.asgi import Exchange, exchange
from tests.unit.api.conftest import KEY, PRINCIPAL, Site, started

CHAT = "/v1/chat/completions"
SESSION = {"x-agent-session": "agent-42"}


def chat(**fields) -> bytes:
    return json.dumps(
        {"model": "scripted", "messages": [{"role": "user", "content": "hi"}], **fields}
    ).encode()


def speak(handle):
    handle.start().say("text").finish(FinishReason.STOP)


async def make_site(*, trust=True, **settings) -> Site:
    site = Site(session_header="x-agent-session", **settings)
    site.keys[KEY] = KeyLookup(KeyState.VALID, replace(PRINCIPAL, has_session_trust=trust))
    await started(site)
    return site


def ask(site: Site, body: bytes, **headers: str) -> Exchange:
    asked = Exchange(site.app, "POST", CHAT, headers=site.headers(**headers))
    asked.send(body)
    return asked


async def until(condition, *, patience_s=5.0):
    async with asyncio.timeout(patience_s):
        while not condition():
            await asyncio.sleep(0.001)


# -- sessions -------------------------------------------------------------------------------------


async def test_one_generation_at_a_time_in_a_session_and_waiting_takes_no_queue_slot():
    site = await make_site()
    first = ask(site, chat(), **SESSION)
    await until(lambda: len(site.engine.handles) == 1)
    second = ask(site, chat(), **SESSION)
    await until(lambda: site.runtime.sessions.statistics().num_waiting == 1)

    other = ask(site, chat(), **{"x-agent-session": "agent-43"})
    await until(lambda: len(site.engine.handles) == 2)
    speak(site.engine.handles[1])
    assert (await other.answer()).status == 200
    assert len(site.engine.handles) == 2  # the second one has not been submitted
    speak(site.engine.handles[0])
    await until(lambda: len(site.engine.handles) == 3)
    speak(site.engine.handles[2])

    assert (await first.answer()).status == (await second.answer()).status == 200
    assert site.runtime.sessions.statistics() == SessionStatistics()
    expected = session_key(user_id=1, session_id="agent-42")
    assert [r.session for r in site.records if r.session == expected] == [expected] * 2
    assert not any(r.was_session_ignored for r in site.records)


async def test_the_next_of_a_session_starts_only_when_the_engine_has_let_go_of_the_one_before():
    site = await make_site()
    first = ask(site, chat(stream=True), **SESSION)
    await until(lambda: len(site.engine.handles) == 1)
    handle = site.engine.handles[0].start()
    handle.release_on_cancel = False
    second = ask(site, chat(), **SESSION)
    await first.until(lambda: first.status == 200)

    first.disconnect()
    await asyncio.wait_for(first.task, 1.0)
    await asyncio.sleep(0.02)
    assert handle.is_cancelled
    assert len(site.engine.handles) == 1
    handle.release()

    await until(lambda: len(site.engine.handles) == 2)
    speak(site.engine.handles[1])
    assert (await second.answer()).status == 200


async def test_a_session_named_without_trust_is_ignored_and_noted():
    site = await make_site(trust=False)
    asked = [ask(site, chat(), **{"x-agent-session": value}) for value in ("a", "a", "x" * 600)]

    await until(lambda: len(site.engine.handles) == 3)  # nobody waits for another
    for handle in site.engine.handles:
        speak(handle)
    for one in asked:
        assert (await one.answer()).status == 200
    assert [(r.session, r.was_session_ignored) for r in site.records] == [(None, True)] * 3


async def test_a_session_in_the_body_or_in_another_header_means_nothing():
    site = await make_site()
    body = chat(conversation="a", session_id="a", mesh_internal_agent_session_id="a", user="a")
    asked = [ask(site, body, **{"x-session-id": "a"}) for _ in range(2)]

    await until(lambda: len(site.engine.handles) == 2)
    for handle in site.engine.handles:
        speak(handle)
    for one in asked:
        await one.answer()
    assert [(r.session, r.was_session_ignored) for r in site.records] == [(None, False)] * 2


@pytest.mark.parametrize("value", ["", " ", "x" * 513, "a\x01b"])
async def test_a_name_that_is_none_is_400_for_those_who_may_name_one(value):
    site = await make_site()

    answer = await exchange(
        site.app, "POST", CHAT, chat(), headers=site.headers(**{"x-agent-session": value})
    )

    assert (answer.status, answer.json()["error"]["code"]) == (400, "invalid_value")
    assert [r.outcome for r in site.records] == [Outcome.REJECTED]
    assert site.engine.handles == []


async def test_the_class_of_the_key_reaches_the_engine(site):
    site.engine.play = speak
    for priority in KeyPriority:
        site.keys[KEY] = KeyLookup(KeyState.VALID, replace(PRINCIPAL, priority=priority))
        await site.post(CHAT, chat())

    assert [handle.request.priority for handle in site.engine.handles] == list(PriorityClass)


# -- one deadline ---------------------------------------------------------------------------------


async def test_who_gets_no_lane_in_time_is_429_with_the_reason():
    site = await make_site(time_limits=TimeLimits(admission_s=0.05))

    answer = await ask(site, chat(stream=True)).answer()

    assert (answer.status, answer.json()["error"]["code"]) == (429, "server_overloaded")
    assert int(answer.headers["retry-after"]) >= 1
    assert site.engine.handles[0].is_cancelled
    (record,) = site.records
    assert (record.outcome, record.rejection_reason) == (Outcome.REJECTED, RejectionReason.ADMISSION_TIMEOUT)


async def test_session_and_queue_share_the_deadline():
    site = await make_site(time_limits=TimeLimits(admission_s=0.8))
    loop = asyncio.get_running_loop()
    site.engine.play = lambda handle: handle.start() if len(site.engine.handles) == 1 else None
    first = ask(site, chat(), **SESSION)
    await until(lambda: len(site.engine.handles) == 1)
    second, began = ask(site, chat(), **SESSION), loop.time()
    await asyncio.sleep(0.5)
    site.engine.handles[0].finish()
    await first.answer()
    await until(lambda: len(site.engine.handles) == 2)

    answer = await second.answer()

    assert answer.status == 429
    assert 0.79 <= loop.time() - began < 1.3
    assert site.runtime.sessions.statistics() == SessionStatistics()


async def test_a_busy_session_alone_can_use_up_the_deadline():
    site = await make_site(time_limits=TimeLimits(admission_s=0.05))
    site.engine.play = lambda handle: handle.start()
    first = ask(site, chat(), **SESSION)
    await until(lambda: len(site.engine.handles) == 1)

    answer = await ask(site, chat(), **SESSION).answer()

    assert answer.status == 429
    assert len(site.engine.handles) == 1
    site.engine.handles[0].finish()
    assert (await first.answer()).status == 200
    assert site.runtime.sessions.statistics() == SessionStatistics()


async def test_without_a_deadline_it_waits_until_cancelled():
    site = await make_site(time_limits=TimeLimits(admission_s=0, request_s=0))
    asked = ask(site, chat())
    await asyncio.sleep(0.1)
    assert not asked.task.done()

    speak(site.engine.handles[0])

    assert (await asked.answer()).status == 200


@pytest.mark.parametrize("phase", ["session", "queued", "started", "speaking"])
@pytest.mark.parametrize("streaming", [True, False])
async def test_the_limit_of_the_whole_request_is_504_in_every_phase(phase, streaming):
    site = await make_site()
    if phase == "session":
        blocking = ask(site, chat(), **SESSION)
        await until(lambda: len(site.engine.handles) == 1)
    elif phase == "started":
        site.engine.play = lambda handle: handle.start()
    elif phase == "speaking":
        site.engine.play = lambda handle: handle.start().say("text")

    answer = await ask(site, chat(stream=streaming, timeout_s=0.4), **SESSION).answer()

    if streaming and phase in ("started", "speaking"):
        assert answer.status == 200
        assert answer.events()[-2]["error"]["code"] == "timeout"
        assert answer.events()[-1] == "[DONE]"
    else:
        assert (answer.status, answer.json()["error"]["code"]) == (504, "timeout")
    assert [r.outcome for r in site.records] == [Outcome.TIMED_OUT]
    if phase == "session":
        blocking.disconnect()
        await blocking.task
    assert all(handle.is_cancelled for handle in site.engine.handles)
    assert site.runtime.sessions.statistics() == SessionStatistics()


async def test_a_body_can_only_lower_the_limit():
    site = await make_site(time_limits=TimeLimits(request_s=0.05))

    assert (await ask(site, chat(timeout_s=3600)).answer()).status == 504
    for wrong in (0, -1, "5", True, 1e300):
        answer = await ask(site, chat(timeout_s=wrong)).answer()
        assert (answer.status, answer.json()["error"]["param"]) == (400, "timeout_s")


@pytest.mark.parametrize("named", [False, True])
async def test_without_room_nobody_tokenizes_unless_a_session_comes_first(named):
    site = await make_site()
    site.engine.refusal = ServerOverloaded("full", reason=RejectionReason.QUEUE_FULL, retry_after_s=7)
    num_calls = site.engine.tokenizer.num_calls

    answer = await ask(site, chat(stream=True), **(SESSION if named else {})).answer()

    assert (answer.status, answer.headers["retry-after"]) == (429, "7")
    assert (site.engine.tokenizer.num_calls > num_calls) == named
    assert site.records[0].rejection_reason is RejectionReason.QUEUE_FULL
    assert site.runtime.sessions.statistics() == SessionStatistics()


@pytest.mark.parametrize(
    ("admission_s", "request_s", "wished_s", "expected_s"),
    [(60, 600, None, 60), (60, 600, 5, 5), (60, 30, None, 30), (0, 600, None, 600), (0, 0, None, None)],
)
async def test_admission_predicts_against_whatever_limit_comes_first(
    admission_s, request_s, wished_s, expected_s
):
    site = await make_site(time_limits=TimeLimits(admission_s=admission_s, request_s=request_s))
    site.engine.play = speak

    before = time.monotonic()
    await ask(site, chat(timeout_s=wished_s)).answer()

    deadline_ts = site.engine.handles[0].deadline_ts
    if expected_s is None:
        assert deadline_ts is None
    else:
        assert expected_s <= deadline_ts - before < expected_s + 1


# -- a drain --------------------------------------------------------------------------------------


async def test_a_drain_answers_who_waits_for_a_session_at_once():
    site = await make_site()
    site.engine.play = lambda handle: handle.start()
    first = ask(site, chat(), **SESSION)
    await until(lambda: len(site.engine.handles) == 1)
    second = ask(site, chat(), **SESSION)
    await until(lambda: site.runtime.sessions.statistics().num_waiting == 1)

    site.runtime.begin_drain()
    answer = await asyncio.wait_for(second.answer(), 1.0)

    assert (answer.status, answer.json()["error"]["code"]) == (503, "service_unavailable")
    assert answer.headers["retry-after"]
    assert site.records[0].rejection_reason is RejectionReason.DRAINING
    site.engine.handles[0].finish()
    assert (await first.answer()).status == 200


async def test_a_server_that_stops_tells_its_stream_and_the_record_says_cancelled(site):
    site.engine.play = lambda handle: handle.start().say("text")
    running = ask(site, chat(stream=True))
    await running.until(lambda: len(running.frames) >= 2)

    running.task.cancel()
    await asyncio.wait([running.task])

    assert running.events()[-2]["error"]["code"] == "service_unavailable"
    assert running.events()[-1] == "[DONE]"
    assert [r.outcome for r in site.records] == [Outcome.CANCELLED]
    assert site.records[0].usage.completion_tokens == 4


# -- early headers and signs of life --------------------------------------------------------------

PATIENT = TimeLimits(early_headers_s=0.05, keep_alive_s=0.05)


async def test_a_stream_that_waits_long_gets_its_headers_and_comments():
    site = await make_site(time_limits=PATIENT)
    asked = ask(site, chat(stream=True, frobnicate=1))

    await asked.until(lambda: asked.body.count(b": keep-alive\n\n") >= 2)
    assert asked.status == 200
    assert asked.headers["x-ignored-parameters"] == "frobnicate"
    speak(site.engine.handles[0])
    answer = await asked.answer()

    events = answer.events()
    assert events[0]["choices"][0]["delta"]["role"] == "assistant"
    assert events[-1] == "[DONE]"
    assert site.records[0].outcome is Outcome.COMPLETED


async def test_after_early_headers_a_refusal_is_in_band():
    site = await make_site(time_limits=replace(PATIENT, admission_s=0.12))

    answer = await ask(site, chat(stream=True)).answer()

    assert answer.status == 200
    assert [event if event == "[DONE]" else event["error"]["code"] for event in answer.events()] == [
        "server_overloaded",
        "[DONE]",
    ]
    assert site.records[0].outcome is Outcome.REJECTED


async def test_whole_answers_get_no_early_headers():
    site = await make_site(time_limits=PATIENT)
    asked = ask(site, chat())
    await asyncio.sleep(0.15)
    assert asked.status is None

    speak(site.engine.handles[0])

    assert (await asked.answer()).json()["choices"][0]["message"]["content"] == "text"


async def test_a_sequence_that_stands_still_is_kept_alive_too():
    site = await make_site(time_limits=PATIENT)
    site.engine.play = lambda handle: handle.start().say("one")
    asked = ask(site, chat(stream=True))
    await asked.until(lambda: b": keep-alive" in asked.body)

    site.engine.handles[0].say(" two").finish()
    answer = await asked.answer()

    texts = [e["choices"][0]["delta"].get("content") or "" for e in answer.events()[:-1]]
    assert "".join(texts) == "one two"


# -- readers that are lost ------------------------------------------------------------------------


class StalledClient:
    """Takes the headers and `num_frames` frames, and then no more until its socket is aborted."""

    def __init__(self, site: Site, body: bytes, *, num_frames: int = 1) -> None:
        self.num_aborts = 0
        self.frames: list[bytes] = []
        self._num_frames = num_frames
        self._incoming: asyncio.Queue[dict] = asyncio.Queue()
        self._incoming.put_nowait({"type": "http.request", "body": body})
        raw = [(name.encode(), value.encode()) for name, value in site.headers().items()]
        scope = {
            "type": "http",
            "method": "POST",
            "path": CHAT,
            "headers": raw,
            "extensions": {"skippy.connection": self},
        }
        self.task = asyncio.ensure_future(site.app(scope, self._incoming.get, self._send))

    async def _send(self, message):
        if message["type"] == "http.response.body":
            if len(self.frames) >= self._num_frames:
                await asyncio.Event().wait()
            self.frames.append(message["body"])

    def abort(self) -> None:
        self.num_aborts += 1
        self._incoming.put_nowait({"type": "http.disconnect"})


async def test_a_stalled_reader_is_ended_within_the_limit_and_told_apart():
    site = await make_site(time_limits=TimeLimits(send_s=0.1))
    site.engine.play = lambda handle: [handle.start(), *[handle.say("text") for _ in range(40)]]
    loop = asyncio.get_running_loop()
    client, began = StalledClient(site, chat(stream=True), num_frames=4), loop.time()

    await asyncio.wait_for(client.task, 2.0)

    assert 0.1 <= loop.time() - began < 1.0
    assert client.num_aborts == 1
    assert site.engine.handles[0].is_cancelled
    (record,) = site.records
    assert (record.outcome, record.error_code) == (Outcome.CLIENT_DISCONNECT, "receiver_stalled")
    assert record.usage.completion_tokens > 0
    assert site.events == [LaneFreed(record.request_id, ReceiverOutcome.STALLED, FrameKind.IN_FLIGHT, 0.1)]


async def test_a_reader_that_stalls_on_the_last_frame_had_a_complete_answer():
    site = await make_site(time_limits=TimeLimits(send_s=0.1))
    site.engine.play = lambda handle: handle.start().finish()
    client = StalledClient(site, chat(stream=True), num_frames=1)

    await asyncio.wait_for(client.task, 2.0)

    assert [r.outcome for r in site.records] == [Outcome.COMPLETED]
    assert [event.frame_kind for event in site.events] == [FrameKind.TERMINAL]
    assert client.num_aborts == 1


async def test_a_whole_answer_that_nobody_takes_is_ended_too():
    site = await make_site(time_limits=TimeLimits(send_s=0.1))
    site.engine.play = speak
    client = StalledClient(site, chat(), num_frames=0)

    await asyncio.wait_for(client.task, 2.0)

    assert client.num_aborts == 1
    assert len(site.records) == 1


async def test_a_reader_that_drops_its_stream_is_told_apart_from_one_that_never_had_it(site):
    site.engine.play = lambda handle: handle.start().say("text")
    streaming = ask(site, chat(stream=True))
    await streaming.until(lambda: len(streaming.frames) >= 2)
    site.engine.play = lambda handle: None
    waiting = ask(site, chat(stream=True))
    await until(lambda: len(site.engine.handles) == 2)

    for one in (streaming, waiting):
        one.disconnect()
        await one.task

    assert [r.error_code for r in site.records] == ["receiver_dropped", "client_disconnect"]
    assert [r.outcome for r in site.records] == [Outcome.CLIENT_DISCONNECT] * 2
    assert [event.outcome for event in site.events] == [ReceiverOutcome.DROPPED]
    assert site.events[0].request_id == site.records[0].request_id


async def test_usage_is_in_the_record_also_where_nobody_asked_for_it(site):
    site.engine.play = speak

    for streaming in (True, False):
        await site.post(CHAT, chat(stream=streaming))

    assert [r.usage.completion_tokens for r in site.records] == [4, 4]


# -- one record for each --------------------------------------------------------------------------


async def test_a_body_that_is_too_large_or_never_comes_leaves_a_record():
    site = await make_site()
    too_large = Exchange(site.app, "POST", CHAT, headers=site.headers())
    too_large.send(b"x" * 1_000_001)
    assert (await too_large.answer()).status == 413
    leaving = Exchange(site.app, "POST", CHAT, headers=site.headers())
    leaving.send(b"{", more=True)
    await asyncio.sleep(0.01)
    leaving.disconnect()
    await leaving.task

    assert [(r.outcome, r.status) for r in site.records] == [
        (Outcome.REJECTED, 413),
        (Outcome.CLIENT_DISCONNECT, 499),
    ]
