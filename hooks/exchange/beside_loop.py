"""Work of policies that may take long, beside the event loop and within their time.

A pattern over a long text can take seconds, which nobody can see before. RE2 lets others run meanwhile, so on
a thread it takes its own request's time alone. A thread cannot be ended: one that is late goes on for nobody,
and there are only so many of them, so that late ones hold up those who need a thread, and nobody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

MAX_THREADS = 4

_threads = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="policies")


async def within(work: Callable[[], T], *, limit_s: float | None) -> T:
    """The result of `work`, which goes on alone past its limit, or never begins. Raises TimeoutError."""
    doing = asyncio.get_running_loop().run_in_executor(_threads, work)
    try:
        done, _ = await asyncio.wait({doing}, timeout=limit_s)
    finally:
        doing.cancel()
    if not done:
        raise TimeoutError
    return doing.result()
