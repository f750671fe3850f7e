"""Every option mixed, over real connections, some of which are cut: each gets its own text, nothing stays.

The same mixture as in tests/model/test_mixed_load.py, which has more of it and troubles in the engine.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx

from inference.engine.config import EngineConfig
from inference.engine.llama import LlamaModel
from tests.contract.api.conftest import LiveService
from tests.contract.api.test_disconnects import settled
from tests.model.mixed_requests import MixedRequest, RequestMix
from tests.model_files import default_model_path

NUM_REQUESTS = 48
NUM_CLIENTS = 16


def text_of(part: dict[str, Any]) -> str:
    holder = part.get("message") or part.get("delta") or part
    return str(holder.get("content") or holder.get("text") or "")


def whole_text(request: MixedRequest, body: str) -> str:
    if not request.is_stream:
        return text_of(json.loads(body)["choices"][0])
    assert body.endswith("data: [DONE]\n\n"), body[-200:]
    events = [json.loads(line[6:]) for line in body.split("\n\n") if line.startswith("data: {")]
    return "".join(text_of(choice) for event in events for choice in event["choices"])


async def ask(http: httpx.AsyncClient, live: LiveService, request: MixedRequest) -> str | None:
    """The answer's text, None where the client went away."""
    asked = http.post(request.path, json=request.body | {"model": live.model})
    if request.is_closed:
        patience_s = 0.05 * (request.closes_after_frames or 0) + (request.closes_after_s or 0.01)
        try:
            await asyncio.wait_for(asked, patience_s)
        except TimeoutError:
            return None
        return None
    response = await asked
    assert response.status_code == 200, (request, response.text)
    return whole_text(request, response.text)


async def test_mixed_requests_get_their_own_texts_and_leave_nothing(live: LiveService) -> None:
    model = LlamaModel.load(default_model_path(), EngineConfig())
    mix = RequestMix(model.tokenizer, model="", num_users=1, seed=21)
    waiting = iter(requests := mix.make(NUM_REQUESTS))
    model.close()
    answers: dict[str, str | None] = {}

    async with httpx.AsyncClient(base_url=live.url, headers=live.auth, timeout=60) as http:

        async def client() -> None:
            for request in waiting:
                answers[request.id] = await ask(http, live, request)

        async with asyncio.TaskGroup() as group:
            for _ in range(NUM_CLIENTS):
                group.create_task(client())
    known = [one for one in requests if one.text is not None and answers[one.id] is not None]
    assert len(known) > NUM_REQUESTS // 3
    for request in known:
        assert answers[request.id] == request.text, request
    assert not any(await asyncio.to_thread(settled, live))
