from __future__ import annotations

import asyncio

from inference.services.prompt_turns import PromptTurns


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_users_take_turns_whoever_asked_more():
    turns, taken = PromptTurns(max_at_once=1), []

    async def ask(user_id: int, name: str) -> None:
        await turns.take(user_id)
        taken.append(name)

    await turns.take(1)
    tasks = [asyncio.create_task(ask(1, f"a{number}")) for number in range(4)]
    tasks += [asyncio.create_task(ask(2, "b0")), asyncio.create_task(ask(3, "c0"))]
    await settle()
    assert taken == []
    for _ in tasks:
        turns.end()
        await settle()
    assert taken == ["a0", "b0", "c0", "a1", "a2", "a3"]
    turns.end()
    assert repr(turns) == "<PromptTurns: 0 of 1 taken, 0 waiting>"
    await asyncio.gather(*tasks)


async def test_who_leaves_takes_no_turn_along_not_even_one_that_was_just_given():
    turns = PromptTurns(max_at_once=2)
    await turns.take(1)
    await turns.take(1)
    waiting = [asyncio.create_task(turns.take(user)) for user in (1, 1, 2)]
    await settle()
    waiting[0].cancel()
    await settle()
    assert "2 waiting" in repr(turns)
    turns.end()
    waiting[1].cancel()  # it has its turn, but does not know yet
    await settle()
    assert waiting[1].cancelled() and waiting[2].done() and not waiting[2].cancelled()
    turns.end()
    turns.end()
    assert repr(turns) == "<PromptTurns: 0 of 2 taken, 0 waiting>"


async def test_everybody_at_once_may_leave():
    turns = PromptTurns(max_at_once=1)
    await turns.take(1)
    waiting = [asyncio.create_task(turns.take(number % 7)) for number in range(500)]
    await settle()
    turns.end()
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert repr(turns) == "<PromptTurns: 0 of 1 taken, 0 waiting>"
