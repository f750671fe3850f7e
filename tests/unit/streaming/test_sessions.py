import asyncio

import pytest

from inference.domain.errors import ServiceUnavailable
from inference.streaming.sessions import SessionRegistry, SessionStatistics, session_key, stable_id


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (["a"], 17750275526127346094),
        (["ab", "c"], 14556160083343306307),
        (["a", "bc"], 13745204550435637914),
        (["openai-agent-session", "agent-42"], 4142278522154754100),
    ],
)
def test_stable_ids(parts, expected):
    assert stable_id(*parts) == expected


def test_a_session_belongs_to_its_user():
    keys = {session_key(user_id=user, session_id=name) for user in (1, 2, 12) for name in ("a", "2a", "b")}

    assert len(keys) == 9
    assert session_key(user_id=1, session_id="a") == session_key(user_id=1, session_id="a")


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


async def test_the_second_waits_for_the_first_and_the_entry_goes_with_the_last():
    sessions = SessionRegistry()
    first = await sessions.acquire(1)
    second = asyncio.ensure_future(sessions.acquire(1))
    await settle()

    assert not second.done()
    assert sessions.statistics() == SessionStatistics(num_sessions=1, num_waiting=1)
    first.release()
    hold = await second
    first.release()  # the second time it is not the first one's any more
    third = asyncio.ensure_future(sessions.acquire(1))
    await settle()
    assert not third.done()
    hold.release()
    (await third).release()

    assert sessions.statistics() == SessionStatistics()
    sessions.check_integrity()


async def test_other_sessions_pass_by():
    sessions = SessionRegistry()
    held = await sessions.acquire(1)
    waiting = asyncio.ensure_future(sessions.acquire(1))
    await settle()

    other = await asyncio.wait_for(sessions.acquire(2), 1)

    other.release()
    held.release()
    (await waiting).release()
    assert sessions.statistics() == SessionStatistics()


async def test_waiters_are_served_in_their_order():
    sessions = SessionRegistry()
    order = []

    async def use(number):
        hold = await sessions.acquire(1)
        order.append(number)
        await asyncio.sleep(0)
        hold.release()

    await asyncio.gather(*[use(number) for number in range(20)])

    assert order == list(range(20))


async def test_who_is_cancelled_while_waiting_leaves_no_trace():
    sessions = SessionRegistry()
    held = await sessions.acquire(1)
    waiting = [asyncio.ensure_future(sessions.acquire(1)) for _ in range(3)]
    await settle()
    waiting[0].cancel()
    waiting[2].cancel()
    await settle()
    assert sessions.statistics() == SessionStatistics(1, 1)

    held.release()
    (await waiting[1]).release()

    assert sessions.statistics() == SessionStatistics()


async def test_who_is_cancelled_in_the_moment_it_is_its_turn_passes_it_on():
    sessions = SessionRegistry()
    held = await sessions.acquire(1)
    waiting = [asyncio.ensure_future(sessions.acquire(1)) for _ in range(2)]
    await settle()

    held.release()
    waiting[0].cancel()

    hold = await asyncio.wait_for(waiting[1], 1)
    hold.release()
    assert sessions.statistics() == SessionStatistics()
    sessions.check_integrity()


async def test_a_drain_answers_whoever_waits_and_leaves_whoever_holds():
    sessions = SessionRegistry()
    held = await sessions.acquire(1)
    waiting = [asyncio.ensure_future(sessions.acquire(1)) for _ in range(3)]
    await settle()
    waiting[0].cancel()

    sessions.close(ServiceUnavailable("draining"))
    await settle()

    assert [type(task.exception()) for task in waiting[1:]] == [ServiceUnavailable] * 2
    with pytest.raises(ServiceUnavailable):
        await sessions.acquire(2)
    assert sessions.statistics() == SessionStatistics(1, 0)
    held.release()
    assert sessions.statistics() == SessionStatistics()
