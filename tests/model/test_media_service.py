"""The whole service on a tiny model with a tiny projector: pictures over the wire."""

from __future__ import annotations

import asyncio
import base64
import random
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inference.domain.media import MediaPiece, Picture, Sound
from inference.engine.config import EngineConfig
from inference.engine.llama import LlamaModel, LlamaProjector
from inference.services.media_desk import MediaDesk
from tests.asgi import Exchange
from tests.model.mixed_requests import MixedRequest
from tests.model.mixed_service import PATIENCE_S, MixedService
from tests.model.tiny_media_model import (
    NUM_SOUND_TOKENS,
    NUM_TOKENS,
    write_tiny_projector,
    write_tiny_sound_projector,
)
from tests.unit.media.files import animation_file, picture_file, png_bomb, wave_file

CONFIG = EngineConfig(
    num_lanes=4,
    num_cells=1024,
    max_batch_tokens=128,
    max_prefill_tokens_beside_decodes=32,
    num_threads=1,
    min_cached_tokens=16,
)


class GatedProjector:
    """A real one that waits at a gate before it encodes."""

    def __init__(self, real: LlamaProjector) -> None:
        self._real = real
        self.kinds, self.sound_rate, self.row_bytes = real.kinds, real.sound_rate, real.row_bytes
        self.gate = threading.Event()
        self.gate.set()
        self.num_encoded = 0
        self.num_waiting = 0

    def lay_out(self, item: Picture | Sound) -> tuple[MediaPiece, ...]:
        return self._real.lay_out(item)

    def encode(self, item: Picture | Sound) -> tuple[np.ndarray, ...]:
        self.num_waiting += 1
        assert self.gate.wait(PATIENCE_S)
        self.num_waiting -= 1
        self.num_encoded += 1
        return self._real.encode(item)

    def close(self) -> None:
        self._real.close()


class LookingService(MixedService):
    """Users with pictures."""

    def __init__(self, model_path: Path, projector_path: Path | None, **options: Any) -> None:
        self._projector_path = projector_path
        self.projector: GatedProjector
        self._count = 0
        make = None if projector_path is None else self._make
        super().__init__(model_path, CONFIG, num_users=3, seed=5, make_projector=make, **options)

    def _make(self, model: LlamaModel) -> GatedProjector:
        assert self._projector_path is not None
        self.projector = GatedProjector(LlamaProjector.load(self._projector_path, model, CONFIG))
        return self.projector

    @property
    def desk(self) -> MediaDesk:
        return self.served.served.media

    def ask(self, *content: Any, user: int = 0, **fields: Any) -> Exchange:
        self._count += 1
        body = {
            "model": "tiny",
            "messages": [{"role": "user", "content": list(content)}],
            "max_tokens": 4,
            "temperature": 0,
            "ignore_eos": True,
            **fields,
        }
        name = f"00000000-0000-4000-8000-{self._count:012x}"
        return self.open(MixedRequest(name, "/v1/chat/completions", body, user))

    async def post(self, path: str, **body: Any) -> Any:
        self._count += 1
        name = f"00000000-0000-4000-8000-{self._count:012x}"
        answer = await self.open(MixedRequest(name, path, {"model": "tiny", **body}, 0)).answer()
        assert answer.status == 200, answer.body
        return answer.json()

    async def answer(self, *content: Any, **fields: Any) -> Any:
        answer = await self.ask(*content, **fields).answer()
        return answer.status, answer.json()

    async def until_gone(self) -> None:
        """Nobody encodes, and the engine is idle."""
        await self.until_idle()
        async with asyncio.timeout(PATIENCE_S):
            while self.desk._encodings:
                await asyncio.sleep(0.01)

    def check(self) -> None:
        self.check_nothing_is_held()
        self.desk.check_integrity()
        assert repr(self.desk._turns) == "<PromptTurns: 0 of 1 taken, 0 waiting>"


@pytest.fixture(scope="module")
def projector_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_projector(tmp_path_factory.mktemp("projectors") / "tiny-mmproj.gguf")


@pytest.fixture
async def service(tiny_model_path: Path, projector_path: Path) -> AsyncIterator[LookingService]:
    async with LookingService(tiny_model_path, projector_path) as made:
        yield made
        made.projector.gate.set()
        await made.until_gone()
        made.check()


def shown(data: bytes, **fields: Any) -> dict[str, Any]:
    url = f"data:image/png;base64,{base64.b64encode(data).decode()}"
    return {"type": "image_url", "image_url": {"url": url, **fields}}


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


RED, BLUE = picture_file(color=(200, 30, 30)), picture_file(color=(30, 30, 200))
QUESTION = said("What is to be seen in this picture, and what is the weather like where it was taken?")


async def test_an_answer_about_a_picture_counts_it(service: LookingService) -> None:
    _, none = await service.answer(QUESTION)
    status, one = await service.answer(QUESTION, shown(RED))
    _, two = await service.answer(QUESTION, shown(RED), shown(RED))
    assert status == 200
    assert one["choices"][0]["message"]["content"]
    counts = [answer["usage"]["prompt_tokens"] for answer in (none, one, two)]
    # Each stands behind a line break, which is one token.
    assert [counts[1] - counts[0], counts[2] - counts[1]] == [NUM_TOKENS + 1, NUM_TOKENS + 1]
    assert one["usage"]["completion_tokens"] == 4
    assert service.records[1].usage.prompt_tokens == counts[1]


async def test_the_same_picture_is_computed_once_and_another_one_anew(service: LookingService) -> None:
    cached = []
    for data in (RED, RED, BLUE):
        _, answer = await service.answer(shown(data), QUESTION)
        cached.append(answer["usage"]["prompt_tokens_details"]["cached_tokens"])
        prompt_tokens = answer["usage"]["prompt_tokens"]
    assert cached[:2] == [0, prompt_tokens - 1]
    assert cached[2] < 30  # the system prompt of the template, and nothing behind it
    assert service.projector.num_encoded == 2


async def test_all_doors_show_the_same_picture(service: LookingService) -> None:
    url, text = shown(RED)["image_url"]["url"], QUESTION["text"]
    _, chat = await service.answer(QUESTION, shown(RED))
    response = await service.post(
        "/v1/responses",
        input=[
            {
                "role": "user",
                "content": [{"type": "input_text", "text": text}, {"type": "input_image", "image_url": url}],
            }
        ],
        max_output_tokens=16,
    )
    source = {"type": "base64", "media_type": "image/png", "data": url.partition(",")[2]}
    turns = [{"role": "user", "content": [QUESTION, {"type": "image", "source": source}]}]
    message = await service.post("/v1/messages", messages=turns, max_tokens=4)
    counted = await service.post("/v1/messages/count_tokens", messages=turns)
    num_tokens = chat["usage"]["prompt_tokens"]
    assert response["usage"]["input_tokens"] == num_tokens
    usage = message["usage"]
    assert usage["input_tokens"] + usage.get("cache_read_input_tokens", 0) == num_tokens
    assert counted["input_tokens"] == num_tokens
    assert service.projector.num_encoded == 1


async def test_streams_go_on_while_a_picture_is_encoded(service: LookingService) -> None:
    service.projector.gate.clear()
    waiting = service.ask(shown(RED), QUESTION)
    async with asyncio.timeout(PATIENCE_S):
        while not service.projector.num_waiting:
            await asyncio.sleep(0.01)
    others = [service.ask(said("Tell me a story."), user=user, stream=True, max_tokens=30) for user in (0, 1)]
    for other in others:
        await other.until(lambda other=other: other.is_complete, patience_s=PATIENCE_S)
        assert len([event for event in other.events() if event != "[DONE]"]) >= 30
    assert not waiting.is_complete
    service.projector.gate.set()
    assert (await waiting.answer()).status == 200


async def test_streams_with_pictures_are_the_same_as_whole_answers(service: LookingService) -> None:
    _, whole = await service.answer(shown(RED), QUESTION, max_tokens=12)
    stream = await service.ask(shown(RED), QUESTION, max_tokens=12, stream=True).answer()
    text = "".join(event["choices"][0]["delta"].get("content") or "" for event in stream.events()[:-1])
    assert text == whole["choices"][0]["message"]["content"]


async def test_a_client_may_go_away_at_any_time(service: LookingService) -> None:
    service.projector.gate.clear()
    asked = [service.ask(shown(picture_file(30 + index)), QUESTION, max_tokens=200) for index in range(6)]
    async with asyncio.timeout(PATIENCE_S):
        while not service.projector.num_waiting:
            await asyncio.sleep(0.01)
    for exchange in asked[:3]:  # one is being encoded, others wait for that
        exchange.disconnect()
    await asyncio.wait([exchange.task for exchange in asked[:3]], timeout=PATIENCE_S)
    service.projector.gate.set()
    rng = random.Random(3)
    for exchange in asked[3:]:
        await asyncio.sleep(rng.random() * 0.1)
        exchange.disconnect()
    await asyncio.wait([exchange.task for exchange in asked], timeout=PATIENCE_S)
    await service.until_gone()
    service.check()
    assert len(service.records) == 6


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"x", "PNG, JPEG, WebP or GIF"),
        (RED[: len(RED) // 2], "PNG, JPEG, WebP or GIF"),
        (picture_file(format="BMP"), "PNG, JPEG, WebP or GIF"),
        (animation_file(), "animated"),
        (png_bomb(30_000, 30_000), "pixels"),
        (picture_file(1, 1000), "times as long"),
    ],
    ids=["a letter", "cut off", "bitmap", "animation", "bomb", "line"],
)
async def test_hostile_pictures_are_refused_by_their_place(
    service: LookingService, data: bytes, reason: str
) -> None:
    status, answer = await service.answer(QUESTION, shown(RED), shown(data))
    assert status == 400
    assert answer["error"]["param"] == "messages[0].content[2]"
    assert reason in answer["error"]["message"]
    assert not service.projector.num_encoded


@pytest.mark.parametrize("size", [(1, 1), (1, 200), (2000, 1500)])
async def test_pictures_of_odd_sizes_are_answered(service: LookingService, size: tuple[int, int]) -> None:
    status, _ = await service.answer(QUESTION, shown(picture_file(*size)))
    assert status == 200


async def test_sounds_and_addresses_are_refused_where_nothing_reads_them(service: LookingService) -> None:
    sound = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
    url = {"type": "image_url", "image_url": {"url": "http://169.254.169.254/latest"}}
    for part, reason in ((sound, "image and text only, not audio parts"), (url, "as a data: URL")):
        status, answer = await service.answer(QUESTION, part)
        assert (status, answer["error"]["param"]) == (400, "messages[0].content[1]")
        assert reason in answer["error"]["message"]
        assert "169.254" not in answer["error"]["message"]


async def test_too_many_tokens_of_pictures_are_refused_before_any_is_encoded(service: LookingService) -> None:
    status, answer = await service.answer(
        said("word " * 980), *[shown(picture_file(30 + index)) for index in range(10)]
    )
    assert status == 400
    assert answer["error"]["code"] == "context_length_exceeded"
    assert not service.projector.num_encoded


async def test_without_a_projector_the_part_is_named(tiny_model_path: Path) -> None:
    async with LookingService(tiny_model_path, None) as service:
        status, answer = await service.answer(QUESTION, shown(RED))
        assert (status, answer["error"]["param"]) == (400, "messages[0].content[1]")
        assert "takes text only, not image parts" in answer["error"]["message"]
        assert (await service.answer(QUESTION))[0] == 200


async def test_an_answer_about_a_sound_counts_it(tiny_model_path: Path, tmp_path: Path) -> None:
    projector_path = write_tiny_sound_projector(tmp_path / "sound.gguf")
    tone = (np.sin(np.arange(8_000) / 10) * 2**14).astype("<i2")
    data = base64.b64encode(wave_file(tone, rate=8_000)).decode()
    part = {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}
    async with LookingService(tiny_model_path, projector_path) as service:
        _, none = await service.answer(QUESTION)
        status, one = await service.answer(QUESTION, part)
        assert status == 200
        more = one["usage"]["prompt_tokens"] - none["usage"]["prompt_tokens"]
        assert more == NUM_SOUND_TOKENS + 1
        status, answer = await service.answer(QUESTION, shown(RED))
        assert (status, answer["error"]["param"]) == (400, "messages[0].content[1]")
        await service.until_gone()
        service.check()


async def test_many_at_once_with_troubles_lose_nothing(service: LookingService) -> None:
    """Steps fail, cells run out, clients leave: every request has its ending, and nothing is left."""
    rng = random.Random(11)
    files = [picture_file(30 + index, color=(index, 0, 0)) for index in range(6)]
    tasks = []
    for index in range(60):
        content = [
            QUESTION if rng.random() < 0.3 else shown(rng.choice(files)) for _ in range(rng.randint(1, 4))
        ]
        tasks.append(
            service.ask(*content, user=index % 3, max_tokens=rng.randint(1, 60), stream=index % 2 == 0)
        )
        await asyncio.sleep(0)
        if rng.random() < 0.2:
            rng.choice(tasks).disconnect()
    done, pending = await asyncio.wait([one.task for one in tasks], timeout=PATIENCE_S)
    assert not pending
    assert len(service.records) == len(done) == 60
    await service.until_gone()
    service.check()
    assert {one.status for one in tasks if one.is_complete} <= {200, 429, 502}
    assert sum(one.status == 200 for one in tasks) > 10
