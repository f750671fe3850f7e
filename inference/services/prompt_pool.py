"""The threads on which prompts are rendered and tokenized, shared by all who need either."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

from inference.services.prompt_turns import PromptTurns

T = TypeVar("T")


class PromptPool:
    """Runs work on `executor`, which has `num_threads`; users that wait for a thread take turns. For one
    event loop."""

    def __init__(self, executor: Executor, *, num_threads: int) -> None:
        self._executor = executor
        self._turns = PromptTurns(max_at_once=num_threads)

    async def run(self, user_id: int, work: Callable[[], T]) -> T:
        """The result of `work`. May be cancelled at any time; work that has begun then ends unheard."""
        await self._turns.take(user_id)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, work)
        finally:
            self._turns.end()

    def __repr__(self) -> str:
        return f"<PromptPool: {self._turns!r}>"
