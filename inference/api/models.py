"""GET /v1/models and GET /v1/models/{id}."""

from __future__ import annotations

from typing import Any

from accounts.contracts import Principal
from inference.api.consumer import ApiConsumer
from inference.api.http import HttpRequest
from inference.openai.models import model_body, model_list_body
from inference.runtime import Runtime


class ModelListConsumer(ApiConsumer):
    """The models that this key may use, also those that are loaded only when somebody asks for them."""

    def __init__(self, *, runtime: Runtime, **rest: Any) -> None:
        super().__init__(**rest)
        self._runtime = runtime

    async def answer(self, request: HttpRequest, principal: Principal | None) -> None:
        assert principal is not None
        await self.respond.json(model_list_body(self._runtime.fleet.listed(principal)))


class ModelConsumer(ApiConsumer):
    """One model by id or alias."""

    def __init__(self, *, runtime: Runtime, **rest: Any) -> None:
        super().__init__(**rest)
        self._runtime = runtime

    async def answer(self, request: HttpRequest, principal: Principal | None) -> None:
        assert principal is not None
        listed = self._runtime.fleet.listed_one(request.argument("model_id"), principal)
        await self.respond.json(model_body(listed))
