"""Asking all processes what runs, and ending one of it, over the real database."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from uuid import uuid4

import psycopg
import pytest
from django.db import connections

from accounts.models import AdministrativeChange
from inference.domain.errors import RequestCancelled
from inference.domain.events import Usage
from inference.domain.live_requests import LivePhase
from inference.ledger.database_calls import database_parameters
from inference.ledger.live_desk import live_request_cancel, live_requests_list
from inference.ledger.live_listener import LiveListener
from inference.ledger.live_questions import CHANNEL, SERVER_PREFIX, LiveQuestion, encode
from inference.ledger.live_watch import (
    APPLICATION_NAME,
    FIRST_PAUSE_S,
    LiveRequestsUnknown,
    LiveWatch,
)
from tests.clocks import FakeClock
from tests.ledger_parts import Live, summary

pytestmark = pytest.mark.django_db(transaction=True)


class Server:
    """One process's listener, and what runs there."""

    def __init__(self, *requests: Live) -> None:
        self.requests = list(requests)
        self.listener = LiveListener(database_parameters(), lambda: self.requests)
        self.task = asyncio.create_task(self.listener.run())

    async def ready(self) -> Server:
        async with asyncio.timeout(20):
            while not self.listener.is_listening:
                await asyncio.sleep(0.01)
        return self

    async def stop(self) -> None:
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task


@pytest.fixture
async def servers() -> AsyncIterator[list[Server]]:
    """Two; the first has 100 requests."""
    many = [Live(summary(f"r{number}", user_id=number % 3), Usage(7, number)) for number in range(100)]
    made = [await Server(*many).ready(), await Server(Live(summary("alone", user_id=1))).ready()]
    yield made
    for server in made:
        await server.stop()


async def asked(call, **arguments):
    """On a thread, which gives back the connection that Django made for it."""

    def work():
        try:
            return call(**arguments)
        finally:
            connections.close_all()

    return await asyncio.to_thread(work)


async def test_everything_that_runs_anywhere_is_told(servers) -> None:
    found = await asked(live_requests_list)
    assert (found.num_servers, found.num_silent) == (2, 0)
    assert sorted(one.request_id for one in found.requests) == sorted(
        live.ending.request_id for server in servers for live in server.requests
    )
    by_id = {one.request_id: one for one in found.requests}
    assert (by_id["r42"].num_input_tokens, by_id["r42"].num_output_tokens) == (7, 42)
    assert by_id["alone"].phase is LivePhase.PREPARING


async def test_a_request_is_cancelled_where_it_runs_and_the_history_says_by_whom(servers) -> None:
    wanted = servers[0].requests[42]
    done = await asked(live_request_cancel, record_id=wanted.record_id)
    assert done.request is not None
    assert done.request.request_id == "r42"
    (error,) = wanted.interruptions
    assert isinstance(error, RequestCancelled)
    assert sum(len(live.interruptions) for server in servers for live in server.requests) == 1
    change = await asked(AdministrativeChange.objects.get)
    assert (change.action, change.subject_kind, change.subject_id) == ("cancelled", "request", None)
    assert (change.subject_label, change.subject_user_id) == (str(wanted.record_id), 0)
    assert change.actor_name


@pytest.mark.parametrize("case", ["unknown", "of another user", "ending"])
async def test_what_is_not_there_to_be_cancelled_leaves_no_trace(servers, case: str) -> None:
    wanted = servers[1].requests[0]
    wanted.is_ending = case == "ending"
    done = await asked(
        live_request_cancel,
        record_id=uuid4() if case == "unknown" else wanted.record_id,
        user_id=2 if case == "of another user" else 1,
    )
    assert (done.request, done.num_servers, done.num_silent) == (None, 2, 0)
    assert not wanted.interruptions
    assert not await asked(AdministrativeChange.objects.exists)


async def test_a_process_that_hangs_is_counted_as_silent(servers) -> None:
    def hang() -> psycopg.Connection:
        made = psycopg.connect(
            **{**database_parameters(), "application_name": SERVER_PREFIX + uuid4().hex}, autocommit=True
        )
        made.execute(f"LISTEN {CHANNEL}")
        return made

    hung = await asyncio.to_thread(hang)
    try:
        found = await asked(live_requests_list, patience_s=0.7)
        assert (found.num_servers, found.num_silent, len(found.requests)) == (3, 1, 101)
        wanted = servers[1].requests[0]
        done = await asked(live_request_cancel, record_id=wanted.record_id)
        assert done.request is not None, "who has it answers, and the others need not"
        done = await asked(live_request_cancel, record_id=uuid4(), patience_s=0.7)
        assert (done.request, done.num_silent) == (None, 1)
    finally:
        await asyncio.to_thread(hung.close)


async def test_questions_that_come_while_others_are_answered_are_answered_too(servers) -> None:
    """Or whoever asks next gets the answer to the question before his own, for ever."""

    def say_many() -> None:
        with psycopg.connect(**database_parameters(), autocommit=True) as connection:
            question = encode(LiveQuestion("nobody", None))
            for _ in range(20):
                connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, question))

    await asyncio.gather(*(asyncio.to_thread(say_many) for _ in range(3)))
    for _ in range(3):
        found = await asked(live_requests_list, patience_s=20)
        assert (found.num_servers, found.num_silent, len(found.requests)) == (2, 0, 101)


async def test_nonsense_on_the_channel_is_passed_over(servers) -> None:
    def say() -> None:
        with psycopg.connect(**database_parameters(), autocommit=True) as connection:
            for payload in ("", "{", '{"reply_to": 1}', "x" * 7000):
                connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, payload))

    await asyncio.to_thread(say)
    assert (await asked(live_requests_list)).num_silent == 0


async def test_a_lost_connection_is_made_again(servers) -> None:
    def cut() -> None:
        with psycopg.connect(**database_parameters(), autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s",
                (SERVER_PREFIX + servers[1].listener.server,),
            )

    await asyncio.to_thread(cut)
    async with asyncio.timeout(30):
        while servers[1].listener.is_listening:
            await asyncio.sleep(0.01)
    await servers[1].ready()
    found = await asked(live_requests_list)
    assert (found.num_servers, found.num_silent, len(found.requests)) == (2, 0, 101)


async def test_without_any_process_nothing_runs() -> None:
    found = await asked(live_requests_list)
    assert (found.requests, found.num_servers, found.num_silent) == ((), 0, 0)


async def test_one_connection_asks_again_and_again_and_is_opened_anew_where_it_is_lost(servers) -> None:
    clock = FakeClock()
    watch = LiveWatch(database_parameters(), patience_s=20, clock=clock)
    try:
        for _ in range(3):
            found = await watch.ask(max_requests=60)
            assert (found.num_servers, found.num_silent) == (2, 0)
            assert (len(found.requests), found.num_untold) == (60, 41)
            ids = [one.record_id for one in found.requests]
            assert ids == sorted(ids), "of one age here, so by their ids"
            told = {live.record_id for live in (*servers[0].requests[:60], *servers[1].requests)}
            assert set(ids) <= told, "those that each process got first"
        assert watch.total_connections == 1
        await asyncio.to_thread(_end_connections_of, APPLICATION_NAME)
        for pause_s in (FIRST_PAUSE_S, None):
            with pytest.raises(LiveRequestsUnknown):
                await watch.ask(max_requests=60)
            if pause_s is not None:
                assert watch.total_connections == 1, "not at once"
        clock.advance(FIRST_PAUSE_S + 0.01)
        assert len((await watch.ask(max_requests=200)).requests) == 101
        assert watch.total_connections == 2
    finally:
        await watch.close()


async def test_answers_that_come_too_late_are_none_to_the_next_question(servers) -> None:
    """A clock that stands still while they come: the first question is given up before its answers."""
    clock = FakeClock()
    watch = LiveWatch(database_parameters(), patience_s=0.0, clock=clock)
    with pytest.raises(LiveRequestsUnknown):
        await watch.ask(max_requests=200)
    await watch.close()
    asking = LiveWatch(database_parameters(), patience_s=20, clock=clock)
    try:
        for _ in range(5):
            given_up = asyncio.create_task(asking.ask(max_requests=200))
            await asyncio.sleep(0.003)
            given_up.cancel()
            await asyncio.wait([given_up])
            clock.advance(20)
            found = await asking.ask(max_requests=200)
            assert (found.num_servers, found.num_silent, len(found.requests)) == (2, 0, 101)
    finally:
        await asking.close()


def _end_connections_of(application: str) -> None:
    with psycopg.connect(**database_parameters(), autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s",
            (application,),
        )
