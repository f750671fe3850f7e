"""A request whose client leaves while it is answered leaves nothing behind, either."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

from accounts.contracts import Principal
from inference.api.consumer import ApiConsumer
from inference.api.http import HttpRequest
from tests.asgi import Exchange


class Answering(ApiConsumer):
    """Never done by itself."""

    methods = ("POST",)
    needs_key = False
    begun: asyncio.Event

    async def answer(self, request: HttpRequest, principal: Principal | None) -> None:
        self.begun.set()
        await asyncio.Event().wait()


async def test_who_leaves_takes_the_request_with_him_and_does_not_wait_for_the_collector() -> None:
    limits: Any = None
    keys: Any = None
    consumer = Answering(authenticator=keys, limit_desk=limits, max_body_bytes=1000)
    consumer.begun = asyncio.Event()
    begun, is_there = consumer.begun, weakref.ref(consumer)
    gc.disable()
    try:
        exchange = Exchange(consumer, "POST", "/v1/things")
        del consumer
        exchange.send(b"{}")
        await begun.wait()
        exchange.disconnect()
        await exchange.task
        del exchange
        # What the loop still had to tell of the tasks.
        for _ in range(3):
            await asyncio.sleep(0)
        assert is_there() is None
    finally:
        gc.enable()
