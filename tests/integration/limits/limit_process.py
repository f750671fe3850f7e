"""The desk of one server process, for tests that need several: takes, tells, and holds until it is killed.

python -m tests.integration.limits.limit_process NUM_REQUESTS MAX_REQUESTS_PER_MINUTE
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from uuid import uuid4

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "skippy_site.settings")
django.setup()

from accounts.contracts import KeyLimits, Limits, Principal  # noqa: E402
from accounts.limits.ceiling import Ceiling  # noqa: E402
from accounts.limits.contracts import LimitExceeded  # noqa: E402
from accounts.limits.desk import SharedLimitDesk  # noqa: E402
from inference.domain.clock import SystemClock  # noqa: E402
from skippy_site.limit_store import make_limit_store  # noqa: E402


async def main(num_requests: int, max_requests: int) -> None:
    ceiling = Ceiling(max_requests_per_minute=10**6, max_tokens_per_minute=10**6)
    desk = SharedLimitDesk(make_limit_store(uuid4()), ceiling=ceiling, clock=SystemClock())
    life = asyncio.create_task(desk.run())
    ann = Principal(
        user_id=1,
        username="ann",
        key_id=1,
        key_name="laptop",
        limits=KeyLimits(Limits(max_requests_per_minute=max_requests, max_parallel_requests=max_requests)),
    )
    num_taken = 0
    for _ in range(num_requests):
        try:
            await desk.reserve(ann, num_tokens=10)
            num_taken += 1
        except LimitExceeded:
            pass
    print(json.dumps(num_taken), flush=True)
    await life


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
