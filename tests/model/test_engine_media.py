"""A real projector and a real model, both tiny: pictures in prompts beside text."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from inference.domain.errors import ServiceUnavailable
from inference.domain.events import Finished
from inference.domain.media import MediaKind, Picture, Sound, UnreadableMedia
from inference.domain.media_run import MediaRun
from inference.engine.config import EngineConfig
from inference.engine.llama import LlamaModel, LlamaProjector
from inference.engine.llama.projector_trial import try_projector
from inference.engine.load_error import ModelLoadError
from tests.model.looking_engine import BEGIN, END, LookingEngine, config, distance, num_cached, picture
from tests.model.test_engine_batching import F32_NOISE
from tests.model.tiny_media_model import (
    NUM_SOUND_TOKENS,
    NUM_TOKENS,
    write_tiny_projector,
    write_tiny_sound_projector,
)
from tests.model.watched_engine import WatchedEngine


@pytest.fixture
def engine(tiny_model: LlamaModel, projector: LlamaProjector) -> Iterator[LookingEngine]:
    with LookingEngine(tiny_model, projector, config()) as made:
        yield made
        made.run()
        made.check_all_free()


def test_a_picture_is_as_many_tokens_as_it_says(projector: LlamaProjector) -> None:
    assert projector.kinds == {MediaKind.IMAGE}
    (piece,) = projector.lay_out(picture("a"))
    (rows,) = projector.encode(picture("a"))
    assert piece.is_embedded
    assert piece.is_causal
    assert len(piece.token_ids) == NUM_TOKENS == len(rows)
    assert max(piece.token_ids) < 0
    assert rows.shape == (NUM_TOKENS, 64)
    assert not rows.flags.writeable


def test_equal_pictures_have_equal_rows_and_others_have_others(projector: LlamaProjector) -> None:
    (one,), (same,), (other,) = (projector.encode(picture(name)) for name in "aab")
    assert (one == same).all()
    assert np.abs(one - other).max() > 0.01


@pytest.mark.parametrize(("width", "height"), [(1, 1), (1, 200), (3000, 2), (32, 32), (641, 479)])
def test_pictures_of_all_shapes_can_be_read(projector: LlamaProjector, width: int, height: int) -> None:
    one = picture("shape", width=width, height=height)
    (rows,) = projector.encode(one)
    assert len(rows) == len(projector.lay_out(one)[0].token_ids)


def test_what_is_not_what_it_says_is_never_handed_on(projector: LlamaProjector) -> None:
    for wrong in (Picture(4, 4, b"x" * 47, b""), Picture(0, 4, b"", b""), Picture(-1, -1, b"xxx", b"")):
        with pytest.raises(ValueError, match="has"):
            projector.lay_out(wrong)
    for sound in (Sound(b"", 16000, b""), Sound(bytes(4), 16000, b""), Sound(bytes(6400), 16000, b"")):
        with pytest.raises(UnreadableMedia):
            projector.lay_out(sound)


def test_layouts_are_made_while_another_thread_encodes(projector: LlamaProjector) -> None:
    results: list[int] = []

    def lay_out() -> None:
        results.extend(len(projector.lay_out(picture(f"{index}"))[0].token_ids) for index in range(30))

    threads = [threading.Thread(target=lay_out) for _ in range(3)]
    for thread in threads:
        thread.start()
    for index in range(30):
        projector.encode(picture(f"{index}"))
    for thread in threads:
        thread.join()
    assert results == [NUM_TOKENS] * 90


def test_the_same_picture_gives_the_same_answer_from_its_cells(engine: LookingEngine) -> None:
    first = engine.look("first", picture("a"))
    engine.run()
    again = engine.look("again", picture("a"))
    other = engine.look("other", picture("b"))
    engine.run()
    whole = len(BEGIN) + NUM_TOKENS + 1 + len(END)
    assert [num_cached(sink) for sink in (first, again, other)] == [0, whole - 1, len(BEGIN)]
    assert distance(engine.logits["first"][0], engine.logits["again"][0]) < F32_NOISE
    assert distance(engine.logits["first"][0], engine.logits["other"][0]) > 0.1
    assert isinstance(first.events[-1], Finished)


def test_pictures_are_never_shared_over_a_border(engine: LookingEngine) -> None:
    engine.look("mine", picture("a"), namespace="mine")
    engine.run()
    yours = engine.look("yours", picture("a"), namespace="yours")
    engine.run()
    assert num_cached(yours) == 0


def test_answers_beside_others_are_those_alone(tiny_model: LlamaModel, projector: LlamaProjector) -> None:
    asked = {"one": ["a"], "two": ["b", "a"], "three": ["a", "a", "c"]}
    alone: dict[str, np.ndarray] = {}
    for name, names in asked.items():
        with LookingEngine(tiny_model, projector, config(has_prefix_cache=False)) as engine:
            engine.look(name, *[picture(one) for one in names])
            engine.run()
            alone[name] = engine.logits[name][0]
            engine.check_all_free()
    together = config(max_batch_tokens=64, max_prefill_tokens_beside_decodes=32)
    with LookingEngine(tiny_model, projector, together) as engine:
        talker = engine.submit("talker", "Tell me a story.", max_tokens=60, ignore_eos=True)
        engine.core.step()
        for name, names in asked.items():
            engine.look(name, *[picture(one) for one in names])
        engine.run()
        for name in asked:
            assert distance(engine.logits[name][0], alone[name]) < F32_NOISE
        assert len(talker.token_ids) == 60
        engine.check_all_free()


def test_pictures_that_lost_their_cells_are_computed_again(
    tiny_model: LlamaModel, projector: LlamaProjector
) -> None:
    with LookingEngine(tiny_model, projector, config(has_prefix_cache=False)) as roomy:
        expected = {name: roomy.look(name, picture(name), max_tokens=100) for name in "abc"}
        roomy.run()
        roomy.check_all_free()
    small = EngineConfig(num_lanes=4, num_cells=512, num_threads=1, has_prefix_cache=False)
    with LookingEngine(tiny_model, projector, small) as engine:
        sinks = {name: engine.look(name, picture(name), max_tokens=100) for name in "abc"}
        while engine.core.step():
            engine.check()
        assert engine.core.statistics(is_alive=True).total_preemptions > 0
        for name, sink in sinks.items():
            assert len(sink.token_ids) == 100
            assert distance(engine.logits[name][0], roomy.logits[name][0]) < F32_NOISE
            assert sink.token_ids[:1] == expected[name].token_ids[:1]
        engine.check_all_free()


@pytest.mark.parametrize("num_steps", [1, 2, 3, 4])
def test_one_that_is_cancelled_on_the_way_leaves_nothing(
    tiny_model: LlamaModel, projector: LlamaProjector, num_steps: int
) -> None:
    with LookingEngine(tiny_model, projector, config(min_prefill_tokens=1)) as engine:
        engine.look("gone", *[picture(f"{index}") for index in range(4)])
        for _ in range(num_steps):
            engine.core.step()
        engine.cancel("gone")
        engine.run()
        engine.check_all_free()


def test_rows_that_see_each_other_both_ways(tiny_model: LlamaModel, projector: LlamaProjector) -> None:
    """Computed in one piece, in a context that is causal again afterwards."""
    (rows,) = projector.encode(picture("a"))
    ids = (7, *projector.lay_out(picture("a"))[0].token_ids, 8)
    with WatchedEngine(tiny_model, config(has_prefix_cache=False)) as engine:
        for name, is_causal in (("causal", True), ("both ways", False), ("causal again", True)):
            media = (MediaRun(1, rows, is_causal),)
            engine.submit(name, ids, media=media, max_tokens=3, ignore_eos=True)
            engine.run()
        first = {name: logits[0] for name, logits in engine.logits.items()}
        assert distance(first["causal"], first["causal again"]) < F32_NOISE
        assert distance(first["causal"], first["both ways"]) > 2 * F32_NOISE
        engine.check_all_free()


def test_too_many_rows_to_be_computed_at_once_fail_alone(tiny_model: LlamaModel) -> None:
    rows = np.zeros((300, 64), np.float32)
    small = EngineConfig(num_lanes=4, num_cells=2048, num_threads=1, max_ubatch_tokens=128)
    with WatchedEngine(tiny_model, small) as engine:
        media = (MediaRun(2, rows, is_causal=False),)
        wrong = engine.submit("wrong", (5, 6, *[-7] * 300, 8), media=media)
        narrow = (MediaRun(1, np.zeros((2, 63), np.float32)),)
        other = engine.submit("narrow", (5, -7, -7, 8), media=narrow)
        good = engine.submit("good", BEGIN, max_tokens=5, ignore_eos=True)
        engine.run()
        assert [type(sink.events[-1]).__name__ for sink in (wrong, other, good)] == [
            "Failed",
            "Failed",
            "Finished",
        ]
        engine.check_all_free()


def test_files_that_are_no_projector_of_this_model(
    tiny_model: LlamaModel, tiny_model_path: Path, tmp_path: Path
) -> None:
    wide = write_tiny_projector(tmp_path / "wide.gguf", text_width=96)
    text = tmp_path / "text.gguf"
    text.write_text("not a model")
    for path in (tmp_path / "absent.gguf", tmp_path, text, wide, tiny_model_path):
        with pytest.raises(ModelLoadError, match=path.name):
            LlamaProjector.load(path, tiny_model, config())


def test_sounds_are_read_in_stretches(tiny_model: LlamaModel, tmp_path: Path) -> None:
    path = write_tiny_sound_projector(tmp_path / "sound.gguf")
    loaded = LlamaProjector.load(path, tiny_model, config())
    assert (loaded.kinds, loaded.sound_rate) == ({MediaKind.AUDIO}, 16_000)
    random = np.random.default_rng(3)
    for seconds, num_stretches in ((0.01, 1), (1, 1), (31, 2)):
        noise = random.standard_normal(int(seconds * 16_000)).astype(np.float32) * 0.1
        sound = Sound(noise.tobytes(), 16_000, hashlib.sha256(noise.tobytes()).digest())
        pieces, rows = loaded.lay_out(sound), loaded.encode(sound)
        assert [len(piece.token_ids) for piece in pieces] == [NUM_SOUND_TOKENS] * num_stretches
        assert [one.shape for one in rows] == [(NUM_SOUND_TOKENS, 64)] * num_stretches
        assert len({piece.token_ids for piece in pieces}) == num_stretches
    with pytest.raises(UnreadableMedia):
        loaded.lay_out(picture("a"))
    loaded.close()


def test_a_projector_is_tried_before_it_is_trusted(
    tiny_model_path: Path, tiny_projector_path: Path, tmp_path: Path
) -> None:
    try_projector(tiny_projector_path, tiny_model_path, config())
    try_projector(write_tiny_sound_projector(tmp_path / "sound.gguf"), tiny_model_path, config())
    # Without a tensor libmtmd reads address 0; with a shape that it does not expect, it gives up later.
    crippled = write_tiny_projector(tmp_path / "crippled.gguf", without=("mm.2.bias",))
    uneven = write_tiny_sound_projector(tmp_path / "uneven.gguf", stack_factor=8)
    for path in (crippled, uneven):
        with pytest.raises(ModelLoadError, match=rf"{path.name} ends the process .*SIG(SEGV|ABRT)"):
            try_projector(path, tiny_model_path, config())
    wide = write_tiny_projector(tmp_path / "wide.gguf", text_width=96)
    for path in (tmp_path / "absent.gguf", wide):
        with pytest.raises(ModelLoadError, match=f"{path.name}.*"):
            try_projector(path, tiny_model_path, config())


def test_a_closed_projector_says_so(tiny_model: LlamaModel, tiny_projector_path: Path) -> None:
    loaded = LlamaProjector.load(tiny_projector_path, tiny_model, config())
    loaded.close()
    loaded.close()
    with pytest.raises(ServiceUnavailable):
        loaded.lay_out(picture("a"))
