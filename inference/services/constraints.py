"""Constraints are compiled before admission, away from the event loop and from prompts.

Most take some milliseconds. A hostile one takes seconds before it is refused: so users take turns, and
prompts, which go through other threads, do not wait for it.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from inference.domain.constraint import (
    ConstraintCompiler,
    ConstraintRefused,
    ConstraintSpec,
    Grammar,
    OutputConstraint,
)
from inference.domain.errors import InvalidRequest, UnsupportedParameter
from inference.services.prompt_turns import PromptTurns

NUM_THREADS = 2
MAX_COMPILE_S = 10.0


class ConstraintDesk:
    """For one event loop. `allows_gbnf`: an administrator trusts grammars in llama.cpp's notation."""

    def __init__(self, *, allows_gbnf: bool = False, max_compile_s: float = MAX_COMPILE_S) -> None:
        self._allows_gbnf = allows_gbnf
        self._max_compile_s = max_compile_s
        self._pool = ThreadPoolExecutor(NUM_THREADS, thread_name_prefix="constraint-desk")
        self._turns = PromptTurns(max_at_once=NUM_THREADS)

    async def constraint_compile(
        self, *, compiler: ConstraintCompiler, spec: ConstraintSpec, user_id: int, param: str
    ) -> OutputConstraint:
        """Raises InvalidRequest, which names `param`: what cannot be kept, costs too much, or takes longer
        than `max_compile_s`. May be cancelled at any time; a compilation that runs is then let run, and
        its turn ends with it."""
        if isinstance(spec, Grammar) and spec.is_gbnf and not (spec.is_trusted or self._allows_gbnf):
            raise UnsupportedParameter(
                f"'{param}' is not supported here: grammars in GBNF have to be allowed by an administrator.",
                param=param,
            )
        await self._turns.take(user_id)
        try:
            work = asyncio.get_running_loop().run_in_executor(self._pool, compiler.compile, spec)
        except BaseException:
            self._turns.end()
            raise
        work.add_done_callback(self._end_turn)
        try:
            return await asyncio.wait_for(asyncio.shield(work), self._max_compile_s)
        except ConstraintRefused as refusal:
            raise InvalidRequest(f"Invalid '{param}': {refusal}", param=param) from None
        except TimeoutError:
            raise InvalidRequest(f"Invalid '{param}': It takes too long to prepare.", param=param) from None

    def _end_turn(self, work: asyncio.Future[OutputConstraint]) -> None:
        if not work.cancelled():
            work.exception()  # whoever waited for it has left: then nobody else asks
        self._turns.end()

    def close(self) -> None:
        """Compile nothing more; what runs ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)
