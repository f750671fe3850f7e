"""Parts of messages to rows of embeddings, with a projector that the test plays."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator

import numpy as np
import pytest

from hooks.outbound.addresses import AllowedHosts
from inference.domain.errors import GenerationFailed, InvalidRequest, ServerOverloaded, ServiceUnavailable
from inference.domain.media import MediaKind, MediaPart, MediaPiece, Picture, Sound, UnreadableMedia
from inference.domain.media_run import MediaPlace, MediaRun, media_token_ids
from inference.media.fetching import MediaFetcher
from inference.media.limits import MediaLimits
from inference.services.media_desk import MediaDesk
from tests.unit.media.files import picture_file, wave_file

WIDTH = 4


class ScriptedProjector:
    """A picture is a token, a row for each column of pixels, and a token."""

    sound_rate = 16_000
    row_bytes = WIDTH * 4

    def __init__(self) -> None:
        self.kinds = frozenset(MediaKind)
        self.encoded: list[bytes] = []
        self.threads: set[str] = set()
        self.gate = threading.Event()
        self.gate.set()
        self.error: Exception | None = None
        self.is_closed = False
        self.num_laid_out = 0
        self.num_waiting = 0

    def lay_out(self, item: Picture | Sound) -> tuple[MediaPiece, ...]:
        self.num_laid_out += 1
        if isinstance(item, Picture) and item.height == 13:
            raise UnreadableMedia("the model cannot read it")
        count = item.width if isinstance(item, Picture) else 3
        return (MediaPiece((1,)), MediaPiece(media_token_ids(item.digest, 1, count), True), MediaPiece((2,)))

    def encode(self, item: Picture | Sound) -> tuple[np.ndarray, ...]:
        self.num_waiting += 1
        assert self.gate.wait(30)
        self.num_waiting -= 1
        self.threads.add(threading.current_thread().name)
        if self.error is not None:
            raise self.error
        self.encoded.append(item.digest)
        return (np.zeros((len(self.lay_out(item)[1].token_ids), WIDTH), np.float32),)

    def close(self) -> None:
        self.is_closed = True


def part(width: int = 20, *, at: int = 0, **fields: object) -> MediaPart:
    given = {"data": picture_file(width), **fields}
    return MediaPart(MediaKind.IMAGE, f"messages[0].content[{at}]", **given)  # type: ignore[arg-type]


class Bench:
    def __init__(self, **limits: int) -> None:
        self.projector = ScriptedProjector()
        self.limits = MediaLimits(**limits)  # type: ignore[arg-type]
        fetcher = MediaFetcher(AllowedHosts([]), self.limits)
        self.desk = MediaDesk(self.projector, self.limits, fetcher)

    async def read(self, *parts: MediaPart, user_id: int = 1) -> tuple[MediaRun, ...]:
        items = self.desk.lay_out(await self.desk.load(parts))
        places = [
            MediaPlace(index, item.file.part.mark, 0, item.pieces[1]) for index, item in enumerate(items)
        ]
        return await self.desk.encode(items, places, user_id=user_id)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    yield made
    made.projector.gate.set()
    made.desk.close()
    assert made.projector.is_closed
    made.desk.check_integrity()


async def test_each_part_becomes_its_rows(bench: Bench) -> None:
    sound = MediaPart(MediaKind.AUDIO, "x", data=wave_file(np.zeros(100, "<i2")))
    runs = await bench.read(part(20), part(30), sound)
    assert [(run.start, run.num_tokens, run.is_causal) for run in runs] == [
        (0, 20, True),
        (1, 30, True),
        (2, 3, True),
    ]
    assert all(name.startswith("media") for name in bench.projector.threads)


async def test_the_same_file_is_encoded_once(bench: Bench) -> None:
    first, same = await bench.read(part(20), part(20, at=1))
    (again,) = await bench.read(part(20))
    assert first.owner is same.owner is again.owner
    assert len(bench.projector.encoded) == 1


async def test_who_comes_while_it_is_encoded_waits_for_it(bench: Bench) -> None:
    bench.projector.gate.clear()
    tasks = [asyncio.create_task(bench.read(part(20), user_id=user)) for user in range(5)]
    await asyncio.sleep(0)
    bench.projector.gate.set()
    await asyncio.gather(*tasks)
    assert len(bench.projector.encoded) == 1


async def test_users_take_turns(bench: Bench) -> None:
    bench.projector.gate.clear()
    first = [asyncio.create_task(bench.read(part(20 + index), user_id=1)) for index in range(4)]
    while len(bench.desk._encodings) < 1:
        await asyncio.sleep(0.001)
    other = asyncio.create_task(bench.read(part(50), user_id=2))
    while "2 waiting" in repr(bench.desk._turns) or "4 waiting" not in repr(bench.desk._turns):
        await asyncio.sleep(0.001)
    bench.projector.gate.set()
    await asyncio.gather(*first, other)
    digests = bench.projector.encoded
    (item,) = bench.desk.lay_out(await bench.desk.load([part(50)]))
    assert digests.index(item.file.digest) == 2


async def test_what_was_begun_is_finished_for_the_next_one(bench: Bench) -> None:
    bench.projector.gate.clear()
    task = asyncio.create_task(bench.read(part(20)))
    while not bench.desk._encodings:
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    next_one = asyncio.create_task(bench.read(part(20)))
    bench.projector.gate.set()
    await next_one
    assert len(bench.projector.encoded) == 1
    assert repr(bench.desk._turns) == "<PromptTurns: 0 of 1 taken, 0 waiting>"


async def test_one_that_waits_for_its_turn_can_leave(bench: Bench) -> None:
    bench.projector.gate.clear()
    running = asyncio.create_task(bench.read(part(20)))
    waiting = asyncio.create_task(bench.read(part(30)))
    while "1 waiting" not in repr(bench.desk._turns):
        await asyncio.sleep(0.001)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    bench.projector.gate.set()
    await running
    assert len(bench.projector.encoded) == 1
    assert repr(bench.desk._turns) == "<PromptTurns: 0 of 1 taken, 0 waiting>"


async def test_what_was_read_before_is_not_even_decoded(bench: Bench) -> None:
    await bench.read(part(20))
    num_laid_out = bench.projector.num_laid_out
    (run,) = await bench.read(part(20))
    assert run.num_tokens == 20
    assert bench.projector.num_laid_out == num_laid_out


async def test_those_who_wait_when_the_service_stops_are_told() -> None:
    bench = Bench()
    bench.projector.gate.clear()
    tasks = [asyncio.create_task(bench.read(part(20 + index))) for index in range(3)]
    while not bench.projector.num_waiting or "2 waiting" not in repr(bench.desk._turns):
        await asyncio.sleep(0.001)
    bench.desk.close()
    bench.projector.gate.set()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    # The first one was on the thread already.
    assert [type(outcome) for outcome in outcomes[1:]] == [ServiceUnavailable] * 2
    assert repr(bench.desk._turns) == "<PromptTurns: 0 of 1 taken, 0 waiting>"


async def test_a_failure_is_told_and_the_next_one_is_read(bench: Bench) -> None:
    bench.projector.error = GenerationFailed("The model could not read a picture or a sound.")
    with pytest.raises(GenerationFailed):
        await bench.read(part(20))
    bench.projector.error = None
    assert await bench.read(part(20))


async def test_memory_is_for_those_who_are_there() -> None:
    bench = Bench(max_memory_bytes=40 * WIDTH * 4)
    held = await bench.read(part(30))
    with pytest.raises(ServerOverloaded):
        await bench.read(part(25))
    assert repr(bench.desk._turns) == "<PromptTurns: 0 of 1 taken, 0 waiting>"
    del held
    gc.collect()  # tracebacks of the test itself
    assert await bench.read(part(25))
    bench.desk.close()


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (part(at=1, data=b"nothing"), "PNG, JPEG, WebP or GIF"),
        (part(at=1, data=bytes(200_001)), "larger than 200000 bytes"),
        (part(at=1, data=picture_file(20, 13)), "the model cannot read it"),
        (part(at=1, data=None, url="http://169.254.169.254/"), "send the file as a data: URL"),
        (MediaPart(MediaKind.AUDIO, "messages[0].content[1]", data=b"ID3"), "WAV"),
    ],
)
async def test_a_refusal_names_the_part(wrong: MediaPart, reason: str) -> None:
    bench = Bench(max_bytes=200_000)
    with pytest.raises(InvalidRequest, match=reason) as caught:
        await bench.read(part(), wrong)
    assert caught.value.param == "messages[0].content[1]"
    assert "messages[0].content[1]" in caught.value.message
    assert not bench.projector.encoded
    bench.desk.close()


async def test_a_model_of_text_refuses_every_part() -> None:
    limits = MediaLimits()
    desk = MediaDesk(None, limits, MediaFetcher(AllowedHosts([]), limits))
    assert not desk.kinds
    with pytest.raises(InvalidRequest, match="takes text only, not image parts") as caught:
        await desk.load([part()])
    assert caught.value.param == "messages[0].content[0]"
    assert await desk.load([]) == ()
    desk.close()


async def test_a_model_that_only_sees_says_so(bench: Bench) -> None:
    bench.projector.kinds = frozenset({MediaKind.IMAGE})
    with pytest.raises(InvalidRequest, match="takes image and text only, not audio parts"):
        await bench.read(MediaPart(MediaKind.AUDIO, "x", data=b""))


async def test_files_of_a_request_are_bounded_together() -> None:
    size = len(picture_file(20))
    bench = Bench(max_request_bytes=2 * size + 5)
    with pytest.raises(InvalidRequest, match="the request's files") as caught:
        await bench.read(part(), part(at=1), part(at=2))
    assert caught.value.param == "messages[0].content[2]"
    bench.desk.close()


async def test_too_many_parts_are_refused_before_any_is_read() -> None:
    bench = Bench(max_items=2)
    with pytest.raises(InvalidRequest, match="at most 2"):
        await bench.read(part(), part(), part(data=b"", at=2))
    bench.desk.close()
