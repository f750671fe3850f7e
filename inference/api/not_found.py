"""Everything under /v1 that is no door: a 404 in the API's own shape, never a page of HTML."""

from __future__ import annotations

from accounts.contracts import Principal
from inference.api.consumer import ApiConsumer
from inference.api.http import HttpRequest
from inference.domain.errors import NotFound


class NotFoundConsumer(ApiConsumer):
    """Any method, key or none: what does not exist needs no key to say so."""

    methods = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT")
    needs_key = False

    async def _admit(self) -> None:
        self._request = HttpRequest.from_scope(self.scope)

    async def answer(self, request: HttpRequest, principal: Principal | None) -> None:
        raise NotFound(f"Invalid URL ({request.method} {request.shown_path}).")
