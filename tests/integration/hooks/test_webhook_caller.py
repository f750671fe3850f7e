"""Calls of webhooks over real connections."""

import asyncio
import hashlib
import hmac
import logging
import time

import pytest

from hooks.contracts.actions import Deny, Tag
from hooks.contracts.points import HookPoint
from hooks.contracts.view import MessageView, RequestView, TextPart
from hooks.contracts.webhook_settings import BodyPart, WebhookRights
from hooks.contracts.webhooks import WebhookFailed
from hooks.outbound.addresses import AllowedHosts
from hooks.webhooks.breaker import BreakerRules, BreakerState
from hooks.webhooks.caller import HttpWebhookCaller
from hooks.webhooks.failures import FailureReason
from tests.clocks import FakeClock
from tests.webhook_calls import SECRET, webhook_call, webhook_settings
from tests.webhook_receiver import Received, Receiver, always, answer, here

TIMEOUT_S = 60.0


async def failure_of(caller: HttpWebhookCaller, timeout_s: float = TIMEOUT_S, **changes) -> str:
    with pytest.raises(WebhookFailed) as caught:
        await caller.call(webhook_call(**changes), timeout_s=timeout_s)
    return caught.value.reason


def is_signed(got: Received, secret: str) -> bool:
    """As a receiver would see it, which has nothing of ours but the documentation."""
    stamp, digest = (part.split("=", 1)[1] for part in got.headers["x-skippy-signature"].split(","))
    expected = hmac.new(secret.encode(), f"{stamp}.".encode() + got.body, hashlib.sha256).hexdigest()
    return digest == expected and abs(int(stamp) - time.time()) < 60


def statistics(caller):
    return caller.statistics()[0]


async def test_a_call_arrives_signed_and_named(caller, receiver):
    caller.use([webhook_settings(receiver.url(path="/hook?a=b"))])
    await caller.call(webhook_call(policy="Prüfung %1\r\nx: y", request_id="req_1"), timeout_s=TIMEOUT_S)

    [got] = receiver.received
    assert got.target == "/hook?a=b"
    assert got.headers["host"] == f"hook.example:{receiver.port}"
    assert got.headers["content-type"] == "application/json"
    assert got.headers["x-request-id"] == "req_1"
    assert got.headers["x-skippy-policy"] == "Pr%C3%BCfung%20%251%0D%0Ax%3A%20y"
    assert got.headers["x-skippy-call-id"] == got.json["id"]
    assert "x" not in got.headers
    assert is_signed(got, SECRET)


async def test_connections_are_kept(caller, receiver):
    caller.use([webhook_settings(receiver.url())])
    for _ in range(3):
        await caller.call(webhook_call(), timeout_s=TIMEOUT_S)

    assert receiver.num_connections == 1
    assert len({got.json["id"] for got in receiver.received}) == 3


async def test_what_it_answers_is_held_to_its_rights(caller, receiver):
    receiver.behave = always(
        answer(
            {
                "actions": [
                    {"type": "tag", "name": "seen"},
                    {"type": "inject_text", "text": "be kind"},
                    {"type": "deny", "message": "No.", "status": 451},
                    {"type": "set_parameter", "name": "n", "value": 1},
                ]
            }
        )
    )
    caller.use([webhook_settings(receiver.url())])
    given = await caller.call(webhook_call(), timeout_s=TIMEOUT_S)

    assert given.actions == (Tag("seen"), Deny("No.", status=451))
    assert given.refused == ("inject_text", "set_parameter")


async def test_nothing_against_it_may_be_said_without_a_body(caller, receiver):
    receiver.behave = always(answer(b"", "204 No Content", Content_Type="", Content_Length=""))
    caller.use([webhook_settings(receiver.url())])

    assert (await caller.call(webhook_call(), timeout_s=TIMEOUT_S)).actions == ()
    assert (await caller.call(webhook_call(), timeout_s=TIMEOUT_S)).actions == ()
    assert receiver.num_connections == 1


async def test_a_large_request_and_a_large_answer_pass(caller, receiver):
    words = "ä" * 300_000
    receiver.behave = always(answer({"actions": [{"type": "deny", "message": "No."}]}, X_Filler="x" * 10_000))
    caller.use(
        [
            webhook_settings(
                receiver.url(),
                rights=WebhookRights(frozenset({BodyPart.TEXT}), frozenset({Deny})),
            )
        ]
    )
    request = RequestView("chat.completions", "m", (MessageView("user", (TextPart(words),)),))
    await caller.call(webhook_call(request=request), timeout_s=TIMEOUT_S)

    assert receiver.received[0].json["text"] == words


@pytest.mark.parametrize(
    ("words", "max_body_bytes"),
    [("a" * 2000, 1999), ("ä" * 1500, 2999), ("\ud800", 1 << 20), ("\ud800" * 100_000, 1 << 20)],
)
async def test_what_is_too_large_or_no_text_is_not_sent(caller, receiver, words, max_body_bytes):
    caller.use(
        [
            webhook_settings(
                receiver.url(),
                rights=WebhookRights(frozenset({BodyPart.TEXT, BodyPart.MESSAGES})),
                max_body_bytes=max_body_bytes,
            )
        ]
    )
    request = RequestView("chat.completions", "m", (MessageView("user", (TextPart(words),)),))

    assert await failure_of(caller, request=request) == FailureReason.UNSENDABLE
    assert receiver.num_connections == 0
    assert statistics(caller).breaker.num_failures == 0


async def test_unknown_refused_and_stopped(caller, receiver, caplog):
    assert await failure_of(caller) == FailureReason.UNKNOWN
    for _ in range(2):
        caller.use([webhook_settings("http://open.example/a-secret-path", allows_private=False)])
    assert await failure_of(caller) == FailureReason.NOT_ALLOWED
    [record] = caplog.records
    assert "'review'" in record.getMessage() and "https" in record.getMessage()
    assert "secret" not in record.getMessage()
    caller.use([webhook_settings(receiver.url())])
    await caller.call(webhook_call(), timeout_s=TIMEOUT_S)
    await caller.close()
    assert await failure_of(caller) == FailureReason.STOPPED
    caller.use([webhook_settings(receiver.url())])
    assert await failure_of(caller) == FailureReason.STOPPED
    await receiver.until(lambda one: one.num_ended == 1)


async def test_only_hosts_on_the_list_are_called(receiver):
    caller = HttpWebhookCaller(hosts=AllowedHosts([f"hook.example:{receiver.port}"]), resolve=here)
    caller.use(
        [webhook_settings(receiver.url()), webhook_settings(receiver.url("other.example"), webhook_id=2)]
    )

    await caller.call(webhook_call(), timeout_s=TIMEOUT_S)
    assert await failure_of(caller, webhook_id=2) == FailureReason.NOT_ALLOWED
    assert len(receiver.received) == 1
    await caller.close()


async def test_a_changed_webhook_begins_anew_and_the_others_go_on(caller, receiver):
    first, second = webhook_settings(receiver.url()), webhook_settings(receiver.url(), webhook_id=2)
    caller.use([first, second])
    for webhook_id in (1, 2):
        await caller.call(webhook_call(webhook_id=webhook_id), timeout_s=TIMEOUT_S)
    caller.use([webhook_settings(receiver.url(), secret="b" * 16), second])
    await receiver.until(lambda one: one.num_ended == 1)
    for webhook_id in (1, 2):
        await caller.call(webhook_call(webhook_id=webhook_id), timeout_s=TIMEOUT_S)

    assert [got.connection for got in receiver.received] == [0, 1, 2, 1]
    assert [one.num_answers for one in caller.statistics()] == [1, 2]
    assert is_signed(receiver.received[2], "b" * 16)


@pytest.mark.parametrize("is_stop", [False, True])
async def test_calls_that_are_out_when_it_goes_end_as_they_began(caller, receiver, is_stop):
    go_on = asyncio.Event()

    async def behave(_received, writer):
        await go_on.wait()
        writer.write(answer({"actions": [{"type": "tag", "name": "late"}]}))

    receiver.behave = behave
    caller.use([webhook_settings(receiver.url())])
    out = asyncio.create_task(caller.call(webhook_call(), timeout_s=TIMEOUT_S))
    await receiver.until(lambda one: len(one.received) == 1)
    if is_stop:
        await caller.close()
    else:
        caller.use([])
    assert await failure_of(caller) == (FailureReason.STOPPED if is_stop else FailureReason.UNKNOWN)
    go_on.set()

    assert (await out).actions == (Tag("late"),)
    await receiver.until(lambda one: one.num_ended == 1)


async def test_a_call_that_is_given_up_closes_its_connection_and_frees_its_place(caller, receiver):
    receiver.behave = hang
    caller.use([webhook_settings(receiver.url(), max_in_flight=1)])
    out = asyncio.create_task(caller.call(webhook_call(), timeout_s=TIMEOUT_S))
    waiting = asyncio.create_task(caller.call(webhook_call(), timeout_s=TIMEOUT_S))
    await receiver.until(lambda one: len(one.received) == 1)
    assert (statistics(caller).num_in_flight, statistics(caller).num_waiting) == (1, 1)
    out.cancel()
    await receiver.until(lambda one: one.num_ended == 1 and len(one.received) == 2)
    waiting.cancel()
    await asyncio.gather(out, waiting, return_exceptions=True)
    await receiver.until(lambda one: one.num_ended == 2)

    now = statistics(caller)
    assert (now.num_in_flight, now.num_waiting, now.num_given_up) == (0, 0, 2)
    assert now.breaker.num_failures == 0
    receiver.behave = always(answer())
    await caller.call(webhook_call(), timeout_s=TIMEOUT_S)


async def hang(_received, _writer):
    await asyncio.Event().wait()


async def test_no_more_calls_are_out_than_allowed_and_all_come_through(caller, receiver):
    num_out, most = 0, 0

    async def behave(_received, writer):
        nonlocal num_out, most
        num_out += 1
        most = max(most, num_out)
        await asyncio.sleep(0.005)
        num_out -= 1
        writer.write(answer())

    receiver.behave = behave
    caller.use([webhook_settings(receiver.url(), max_in_flight=4)])
    await asyncio.gather(*(caller.call(webhook_call(), timeout_s=TIMEOUT_S) for _ in range(100)))

    assert most <= 4
    assert receiver.num_connections <= 4
    now = statistics(caller)
    assert (now.num_answers, now.num_in_flight, now.num_waiting, dict(now.failures)) == (100, 0, 0, {})


async def test_waiting_for_a_place_ends_with_the_deadline_and_says_nothing_of_the_webhook(caller, receiver):
    receiver.behave = hang
    caller.use([webhook_settings(receiver.url(), max_in_flight=1)])
    out = asyncio.create_task(caller.call(webhook_call(), timeout_s=TIMEOUT_S))
    await receiver.until(lambda one: len(one.received) == 1)

    assert await failure_of(caller, timeout_s=0.05) == FailureReason.NO_PLACE
    assert statistics(caller).breaker.num_failures == 0
    out.cancel()
    await asyncio.gather(out, return_exceptions=True)


async def test_gateways_that_are_away_are_tried_again_with_the_same_call(caller, receiver):
    answers = iter([answer(b"", "503 Service Unavailable"), answer(b"", "502 Bad Gateway"), answer()])

    async def behave(_received, writer):
        writer.write(next(answers))

    receiver.behave = behave
    caller.use([webhook_settings(receiver.url(), max_retries=2)])
    await caller.call(webhook_call(), timeout_s=TIMEOUT_S)

    first, *others = receiver.received
    assert len(others) == 2
    for other in others:
        assert other.body == first.body
        assert other.headers["x-skippy-call-id"] == first.headers["x-skippy-call-id"]
        assert other.headers["x-skippy-signature"] == first.headers["x-skippy-signature"]
    now = statistics(caller)
    assert (now.num_answers, now.num_retries, now.breaker.num_failures) == (1, 2, 0)


async def test_tries_end(caller, receiver):
    receiver.behave = always(answer(b"", "503 Service Unavailable"))
    caller.use([webhook_settings(receiver.url(), max_retries=1)])

    assert await failure_of(caller) == FailureReason.STATUS
    assert len(receiver.received) == 2
    assert statistics(caller).breaker.num_failures == 1


@pytest.mark.parametrize(
    "status", ["400 Bad", "401 No", "404 Not Found", "429 Slow", "500 Error", "504 Late"]
)
async def test_other_answers_are_tried_again_only_where_that_is_safe(caller, receiver, status):
    receiver.behave = always(answer(b"", status))
    caller.use([webhook_settings(receiver.url(), max_retries=3)])

    assert await failure_of(caller) == FailureReason.STATUS
    assert len(receiver.received) == (4 if status.startswith("504") else 1)
    assert statistics(caller).breaker.num_failures == (1 if status[:3] in ("429", "504") else 0)


async def test_what_may_have_been_acted_upon_is_not_sent_again(caller, receiver):
    async def behave(_received, writer):
        writer.close()

    receiver.behave = behave
    caller.use([webhook_settings(receiver.url(), max_retries=3)])

    assert await failure_of(caller) == FailureReason.LOST
    assert len(receiver.received) == 1
    assert statistics(caller).breaker.num_failures == 1


async def test_a_kept_connection_that_has_ended_is_replaced(caller, receiver):
    async def behave(received, writer):
        if received.connection == 0 and len(receiver.received) > 1:
            writer.transport.abort()
        else:
            writer.write(answer())

    receiver.behave = behave
    caller.use([webhook_settings(receiver.url(), max_retries=0)])
    await caller.call(webhook_call(), timeout_s=TIMEOUT_S)
    await caller.call(webhook_call(), timeout_s=TIMEOUT_S)

    assert [got.connection for got in receiver.received] == [0, 0, 1]
    assert receiver.received[1].body == receiver.received[2].body


async def test_an_address_where_nobody_listens_is_tried_again(caller):
    num_asked = 0

    async def resolve(_host, _port):
        nonlocal num_asked
        num_asked += 1
        return ["127.0.0.1"]

    caller = HttpWebhookCaller(resolve=resolve)
    async with Receiver() as gone:
        url = gone.url()
    caller.use([webhook_settings(url, max_retries=2)])

    assert await failure_of(caller) == FailureReason.NOT_REACHED
    assert num_asked == 3
    assert statistics(caller).breaker.num_failures == 1


async def test_the_circuit_opens_asks_once_and_closes(receiver):
    clock = FakeClock()
    caller = HttpWebhookCaller(resolve=here, clock=clock, rules=BreakerRules(max_failures=3, open_s=10.0))
    receiver.behave = always(answer(b"", "503 Service Unavailable"))
    caller.use([webhook_settings(receiver.url(), max_retries=0)])
    for _ in range(3):
        assert await failure_of(caller) == FailureReason.STATUS
    for _ in range(5):
        assert await failure_of(caller) == FailureReason.CIRCUIT_OPEN
    assert len(receiver.received) == 3
    assert statistics(caller).breaker.state is BreakerState.OPEN

    clock.advance(10)
    receiver.behave = hang
    probe = asyncio.create_task(caller.call(webhook_call(), timeout_s=TIMEOUT_S))
    await receiver.until(lambda one: len(one.received) == 4)
    assert await failure_of(caller) == FailureReason.CIRCUIT_OPEN
    probe.cancel()
    await asyncio.gather(probe, return_exceptions=True)
    receiver.behave = always(answer())
    await caller.call(webhook_call(), timeout_s=TIMEOUT_S)

    now = statistics(caller)
    assert now.breaker.state is BreakerState.CLOSED
    assert now.failures == {FailureReason.STATUS: 3, FailureReason.CIRCUIT_OPEN: 6}
    await caller.close()


@pytest.mark.parametrize("whose", ["the webhook's", "the policy's", "who asks"])
async def test_a_webhook_that_hangs_opens_its_circuit_whoever_ends_the_call(receiver, whose):
    receiver.behave = hang
    caller = HttpWebhookCaller(resolve=here, rules=BreakerRules(max_failures=2, open_s=100.0))
    caller.use([webhook_settings(receiver.url(), deadline_s=0.5 if whose == "the webhook's" else 30.0)])
    for _ in range(2):
        if whose == "who asks":
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await caller.call(webhook_call(), timeout_s=0.5)
        else:
            assert await failure_of(caller, timeout_s=0.5) == FailureReason.TIMED_OUT

    assert await failure_of(caller) == FailureReason.CIRCUIT_OPEN
    await receiver.until(lambda one: one.num_ended == 2)
    await caller.close()


async def test_nothing_that_anybody_wrote_is_logged(caller, receiver, caplog):
    caplog.set_level(logging.DEBUG)
    rights = WebhookRights(frozenset(BodyPart), frozenset({Deny}))
    caller.use([webhook_settings(receiver.url(), rights=rights)])
    await caller.call(webhook_call(HookPoint.OUTPUT), timeout_s=TIMEOUT_S)
    receiver.behave = always(answer({"actions": [{"type": "deny", "message": "answer-words"}], "more": 1}))
    await failure_of(caller)

    assert b"user-words" in receiver.received[0].body
    assert "words" not in caplog.text
    assert SECRET not in caplog.text
    assert SECRET not in repr(caller) + repr(caller.statistics())
