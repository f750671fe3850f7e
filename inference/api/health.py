"""GET /healthz: this process lives. GET /readyz: it can serve, and if not, what is in the way."""

from __future__ import annotations

from typing import Any

import orjson

from accounts.contracts import Principal
from inference.api.consumer import ApiConsumer
from inference.api.http import HttpRequest
from inference.api.nearness import caller_address
from inference.runtime import Runtime


class LivenessConsumer(ApiConsumer):
    """Answers from the event loop alone: no database, no engine."""

    needs_key = False

    async def answer(self, request: HttpRequest, principal: Principal | None) -> None:
        await self.respond.json(b'{"status":"ok"}', headers=((b"cache-control", b"no-store"),))


class ReadinessConsumer(ApiConsumer):
    """200 `ready`, 200 `degraded` (what is away is not needed to answer), or 503 with the reason.

    Callers on this machine also see what lanes, cells and queue hold, and which models failed and why: that
    tells strangers more than they need.
    """

    needs_key = False

    def __init__(self, *, runtime: Runtime, **rest: Any) -> None:
        super().__init__(**rest)
        self._runtime = runtime

    async def answer(self, request: HttpRequest, principal: Principal | None) -> None:
        readiness = await self._runtime.readiness()
        headers: tuple[tuple[bytes, bytes], ...] = ((b"cache-control", b"no-store"),)
        if not readiness.is_ready:
            headers = (*headers, (b"retry-after", b"5"))
        report: dict[str, object] = {"status": readiness.status, "reasons": readiness.reasons}
        address = caller_address(self.scope)
        if address is not None and address.is_loopback:
            report["reasons"] = (*readiness.reasons, *readiness.causes)
            report["statistics"] = self._runtime.statistics()
        body = orjson.dumps(report)
        await self.respond.json(body, status=200 if readiness.is_ready else 503, headers=headers)
