"""Requests of a few sessions come, wait, are cancelled and end in any order: one at a time in each
session, nobody is forgotten, nothing is left."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from inference.streaming.sessions import SessionHold, SessionRegistry, SessionStatistics

ACTIONS = st.lists(
    st.tuples(st.sampled_from(["acquire", "cancel", "release", "again", "turn"]), st.integers(0, 30)),
    max_size=60,
)


async def play(actions: list[tuple[str, int]]) -> None:
    sessions = SessionRegistry()
    tasks: list[tuple[int, asyncio.Task[SessionHold]]] = []
    released: set[SessionHold] = set()

    def holds(key: int) -> list[SessionHold]:
        done = [task for one, task in tasks if one == key and task.done() and not task.cancelled()]
        return [hold for hold in (task.result() for task in done) if hold not in released]

    async def settle() -> None:
        for _ in range(6):
            await asyncio.sleep(0)

    for action, number in actions:
        key = number % 3
        if action == "acquire":
            tasks.append((key, asyncio.ensure_future(sessions.acquire(key))))
        elif action == "turn":
            await settle()
        elif action == "cancel" and tasks:
            tasks[number % len(tasks)][1].cancel()
        elif action == "release" and holds(key):
            hold = holds(key)[0]
            released.add(hold)
            hold.release()
        elif action == "again" and released:
            sorted(released, key=repr)[0].release()
        sessions.check_integrity()
        assert all(len(holds(one)) <= 1 for one in range(3))
    await settle()
    for key in range(3):
        is_waited_for = any(one == key and not task.done() for one, task in tasks)
        assert holds(key) or not is_waited_for, f"session {key} is free and somebody waits"
    while any(holds(key) for key in range(3)):
        for key in range(3):
            for hold in holds(key):
                released.add(hold)
                hold.release()
        await settle()
    assert all(task.done() for _, task in tasks)
    assert sessions.statistics() == SessionStatistics()


@given(ACTIONS)
def test_any_order_of_coming_and_going_keeps_one_at_a_time_and_leaves_nothing(
    actions: list[tuple[str, int]],
) -> None:
    asyncio.run(play(actions))
