"""The thread for embeddings and its client, with a model that a test decides about."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable

import numpy as np
import pytest

from inference.domain.clock import SystemClock
from inference.domain.embeddings import EmbeddingDescription, EmbeddingRequest
from inference.domain.errors import GenerationFailed, ServiceUnavailable
from inference.engine.embedding_client import EmbeddingClient
from inference.engine.embedding_jobs import FloatArray
from inference.engine.embedding_thread import normalized

WIDTH = 3


class ScriptedEmbedder:
    """Rows that tell of the text; the scene's `play` is called before each batch."""

    max_batch_tokens = 64
    max_batch_texts = 8
    can_part = True

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.texts: list[tuple[int, ...]] = []
        self.is_closed = False
        self.is_interrupted = threading.Event()
        self.thread = threading.current_thread()

    def compute(self, texts: list[tuple[int, ...]]) -> FloatArray:
        assert threading.current_thread() is self.thread
        self._scene.play()
        if self.is_interrupted.is_set():
            raise InterruptedError
        self.texts += texts
        return np.array([[len(text), text[0], 1] for text in texts], dtype=np.float32)

    def compute_part(self, part: tuple[int, ...], *, begin: int, is_last: bool) -> FloatArray | None:
        self._scene.play()
        self.texts.append(part)
        return np.array([[begin + len(part), part[0], 1]], dtype=np.float32) if is_last else None

    def interrupt(self) -> None:
        self.is_interrupted.set()

    def close(self) -> None:
        assert threading.current_thread() is self.thread
        self.is_closed = True


class Scene:
    def __init__(self) -> None:
        self.embedders: list[ScriptedEmbedder] = []
        self.play: Callable[[], None] = lambda: None
        self.failure: Exception | None = None
        self.is_busy = False
        self.starts: list[float] = []
        self.counts: list[int] = []
        self.client = EmbeddingClient(
            self._make,
            EmbeddingDescription(width=WIDTH, max_tokens=1000),
            clock=SystemClock(),
            is_busy=lambda: self.is_busy,
        )

    def _make(self) -> ScriptedEmbedder:
        if self.failure is not None:
            raise self.failure
        self.embedders.append(ScriptedEmbedder(self))
        return self.embedders[-1]

    async def embed(self, *texts: tuple[int, ...], user: int = 1) -> FloatArray:
        return await self.client.embed(EmbeddingRequest("r", texts, user_id=user), self)

    def started(self, at_ts: float) -> None:
        self.starts.append(at_ts)

    def ended(self, num_tokens: int) -> None:
        self.counts.append(num_tokens)


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    made = Scene()
    yield made
    assert await made.client.stop(10)


async def test_the_context_is_made_at_the_first_request_and_kept(scene: Scene) -> None:
    assert not scene.embedders and not scene.client.is_loaded
    rows = await scene.embed((3, 4), (5,))
    assert np.allclose(rows, normalized(np.array([[2, 3, 1], [1, 5, 1]], dtype=np.float32)))
    assert np.allclose(np.linalg.norm(rows, axis=1), 1)
    assert len(scene.starts) == 1 and scene.counts == [3]
    await scene.embed((1,))
    assert len(scene.embedders) == 1 and scene.client.is_loaded


async def test_long_texts_come_back_too(scene: Scene) -> None:
    rows = await scene.embed(tuple(range(1, 301)), (7,))
    assert rows.shape == (2, WIDTH)
    assert sum(map(len, scene.embedders[0].texts)) == 301


async def test_beside_streams_everything_is_computed_too(scene: Scene) -> None:
    scene.is_busy = True
    assert (await scene.embed(*[(n, n) for n in range(1, 200)])).shape == (199, WIDTH)


async def test_many_at_once_each_get_their_own(scene: Scene) -> None:
    async def one(n: int) -> bool:
        rows = await scene.embed((n, n), (n + 1,), user=n % 5)
        return np.allclose(rows, normalized(np.array([[2, n, 1], [1, n + 1, 1]], dtype=np.float32)))

    assert all(await asyncio.gather(*[one(n) for n in range(1, 100)]))


async def test_a_cancelled_call_drops_what_was_not_computed(scene: Scene) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def play() -> None:
        inside.set()
        assert go_on.wait(10)

    scene.play = play
    call = asyncio.create_task(scene.embed(*[(n,) for n in range(1, 500)]))
    await asyncio.to_thread(inside.wait, 10)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert len(scene.starts) == 1 and scene.counts == [0]
    go_on.set()
    await scene.embed((1,), user=2)
    assert len(scene.embedders[0].texts) <= scene.embedders[0].max_batch_texts + 1


async def test_a_batch_that_fails_ends_its_requests_alone(scene: Scene) -> None:
    def fail() -> None:
        raise RuntimeError("no")

    scene.play = fail
    with pytest.raises(GenerationFailed):
        await scene.embed((1,))
    scene.play = lambda: None
    assert (await scene.embed((1,))).shape == (1, WIDTH)
    assert len(scene.embedders) == 1


async def test_a_context_that_cannot_be_made_is_tried_again_by_the_next_request(scene: Scene) -> None:
    scene.failure = ValueError("no memory")
    with pytest.raises(ServiceUnavailable):
        await scene.embed((1,))
    scene.failure = None
    assert (await scene.embed((1,))).shape == (1, WIDTH)


async def test_an_unexpected_fault_answers_everybody_and_frees_the_context(scene: Scene) -> None:
    def fail() -> None:
        raise KeyError("a fault of ours")

    scene.play = fail
    calls = [asyncio.create_task(scene.embed((n,))) for n in range(1, 5)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {ServiceUnavailable}
    assert scene.embedders[0].is_closed
    scene.play = lambda: None
    assert (await scene.embed((1,))).shape == (1, WIDTH)


async def test_stopping_interrupts_and_answers_everybody(scene: Scene) -> None:
    inside = threading.Event()

    def play() -> None:
        inside.set()
        assert scene.embedders[0].is_interrupted.wait(10)

    scene.play = play
    calls = [asyncio.create_task(scene.embed((n,), user=n)) for n in range(1, 30)]
    await asyncio.to_thread(inside.wait, 10)
    assert await scene.client.stop(10)
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {ServiceUnavailable}
    assert scene.embedders[0].is_closed
    with pytest.raises(ServiceUnavailable):
        await scene.embed((1,))


async def test_draining_lets_those_go_on_that_were_begun_with(scene: Scene) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def play() -> None:
        inside.set()
        assert go_on.wait(10)

    scene.play = play
    begun = asyncio.create_task(scene.embed(*[(n,) for n in range(1, 20)]))
    await asyncio.to_thread(inside.wait, 10)
    waiting = asyncio.create_task(scene.embed(tuple(range(1, 100)), user=2))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    scene.client.refuse(ServiceUnavailable("The service is shutting down."))
    go_on.set()
    assert (await begun).shape == (19, WIDTH)
    with pytest.raises(ServiceUnavailable):
        await waiting


def test_a_row_of_zeros_stays() -> None:
    rows = normalized(np.array([[0, 0], [3, 4]], dtype=np.float32))
    assert rows.tolist() == [[0, 0], [pytest.approx(0.6), pytest.approx(0.8)]]
