"""Pictures as llama.cpp's own helper computes them, and with places in a plane (M-RoPE)."""

from __future__ import annotations

import ctypes

import llama_cpp
import numpy as np
import pytest
from llama_cpp import mtmd_cpp

from inference.domain.media import Picture
from inference.domain.media_run import MediaRun
from inference.domain.signals import SignalRequest
from inference.engine.config import EngineConfig
from inference.engine.llama import LlamaModel, LlamaProjector
from inference.engine.llama.context import LlamaContext
from inference.engine.llama.media import _make_bitmap
from tests.model.looking_engine import BEGIN, END, LookingEngine, config, distance, num_cached, picture
from tests.model.test_engine_batching import F32_NOISE

Eyes = tuple[LlamaModel, LlamaProjector]
BEFORE, AFTER = "Look at this: ", "\nWhat is to be seen there, and what is it good for?"


@pytest.fixture(params=["behind each other", "in a plane"])
def eyes(
    request: pytest.FixtureRequest, tiny_model: LlamaModel, projector: LlamaProjector, plane_eyes: Eyes
) -> Eyes:
    """Both kinds of places that the rows of a picture have."""
    return plane_eyes if request.param == "in a plane" else (tiny_model, projector)


def logits_of_helper(model: LlamaModel, projector: LlamaProjector, one: Picture) -> np.ndarray:
    """Behind BEFORE, the picture and AFTER, as libmtmd's helper computes them."""
    context = LlamaContext(model, config(has_prefix_cache=False))
    bitmap, chunks = _make_bitmap(one), mtmd_cpp.mtmd_input_chunks_init()
    text = BEFORE.encode() + mtmd_cpp.mtmd_default_marker() + AFTER.encode()
    prompt = mtmd_cpp.mtmd_input_text(text, len(text), False, False)
    bitmaps = (mtmd_cpp.mtmd_bitmap_p_ctypes * 1)(bitmap)
    pointer = projector._pointer
    assert mtmd_cpp.mtmd_tokenize(pointer, chunks, ctypes.byref(prompt), bitmaps, 1) == 0
    last = llama_cpp.llama_pos()
    status = mtmd_cpp.mtmd_helper_eval_chunks(
        pointer, context._pointer, chunks, 0, 0, 512, True, ctypes.byref(last)
    )
    assert status == 0
    row = context.logits(1)[0].copy()
    mtmd_cpp.mtmd_input_chunks_free(chunks)
    mtmd_cpp.mtmd_bitmap_free(bitmap)
    context.close()
    return row


@pytest.mark.parametrize("size", [(40, 24), (200, 160), (16, 300)])
def test_a_picture_is_computed_as_by_the_helper(eyes: Eyes, size: tuple[int, int]) -> None:
    model, projector = eyes
    one = picture("a", width=size[0], height=size[1])
    expected = logits_of_helper(model, projector, one)
    sizes = config(max_batch_tokens=64, max_prefill_tokens_beside_decodes=32)
    with LookingEngine(model, projector, sizes) as engine:
        tokenize = model.tokenizer.tokenize
        ids = tokenize(BEFORE, add_special=False, parse_special=False)
        rows, runs = iter(projector.encode(one)), []
        for piece in projector.lay_out(one):
            if piece.is_embedded:
                runs.append(MediaRun(len(ids), next(rows), piece.is_causal, piece.grid))
            ids += piece.token_ids
        ids += tokenize(AFTER, add_special=False, parse_special=False)
        engine.submit("a", tuple(ids), media=tuple(runs), max_tokens=3)
        while engine.core.step():
            engine.check()
        assert distance(expected, engine.logits["a"][0]) < F32_NOISE
        engine.check_all_free()


def test_the_same_picture_is_shared_whole(plane_eyes: Eyes) -> None:
    model, projector = plane_eyes
    with LookingEngine(model, projector, config()) as engine:
        first = engine.look("first", picture("a"), picture("b"))
        engine.run()
        again = engine.look("again", picture("a"), picture("b"))
        other = engine.look("other", picture("a"), picture("c"))
        while engine.core.step():
            engine.check()
        num_prompt = len(engine.submissions["first"].request.prompt_token_ids)
        (_, one, _) = projector.lay_out(picture("a"))
        assert num_cached(first) == 0
        assert num_cached(again) == num_prompt - 1
        assert len(BEGIN) + len(one.token_ids) < num_cached(other) < num_prompt - len(END)
        assert again.token_ids == first.token_ids
        assert distance(engine.logits["first"][0], engine.logits["again"][0]) < F32_NOISE
        engine.check_all_free()


def test_conversations_about_pictures_go_on_from_their_cells(plane_eyes: Eyes) -> None:
    model, projector = plane_eyes
    with (
        LookingEngine(model, projector, config()) as engine,
        LookingEngine(model, projector, config(has_prefix_cache=False)) as alone,
    ):
        for turn in range(1, 4):
            pictures = [picture(f"{index}", width=60 + 10 * index) for index in range(turn)]
            sink = engine.look(f"{turn}", *pictures)
            engine.run()
            alone.look(f"{turn}", *pictures)
            alone.run()
            assert (num_cached(sink) > 0) == (turn > 1)
            assert distance(engine.logits[f"{turn}"][0], alone.logits[f"{turn}"][0]) < F32_NOISE
        engine.check_all_free()
        alone.check_all_free()


def test_pictures_that_lost_their_cells_are_computed_again(plane_eyes: Eyes) -> None:
    model, projector = plane_eyes
    with LookingEngine(model, projector, config(has_prefix_cache=False)) as roomy:
        for name in "abc":
            roomy.look(name, picture(name), max_tokens=100)
        roomy.run()
        roomy.check_all_free()
    small = EngineConfig(num_lanes=4, num_cells=512, num_threads=1, has_prefix_cache=False)
    with LookingEngine(model, projector, small) as engine:
        sinks = {name: engine.look(name, picture(name), max_tokens=100) for name in "abc"}
        while engine.core.step():
            engine.check()
        assert engine.core.statistics(is_alive=True).total_preemptions > 0
        for name, sink in sinks.items():
            assert len(sink.token_ids) == 100
            for step in (0, 1):
                # From a near-tie on the texts go their own ways.
                if step and sink.token_ids[0] != int(roomy.logits[name][0].argmax()):
                    break
                assert distance(engine.logits[name][step], roomy.logits[name][step]) < F32_NOISE
        engine.check_all_free()


@pytest.mark.parametrize("num_injected", [1, 40])
def test_text_of_a_hook_stands_behind_the_picture(eyes: Eyes, num_injected: int) -> None:
    model, projector = eyes
    text = tuple(range(3000, 3000 + num_injected))
    pictures = [picture("a"), picture("b", width=120, height=90)]
    sizes = config(has_prefix_cache=False, max_batch_tokens=64, max_prefill_tokens_beside_decodes=32)
    with LookingEngine(model, projector, sizes) as engine:
        engine.look("alone", *pictures, behind=text)
        engine.run()
        hooked = engine.look("hooked", *pictures, signals=SignalRequest(rules=()))
        while engine.core.step():
            engine.check()
        assert len(hooked.events) == 2
        engine.inject("hooked", *text)
        engine.resume("hooked")
        while engine.core.step():
            engine.check()
        assert len(hooked.token_ids) == 6
        # The first row was drawn from and thrown away.
        assert distance(engine.logits["alone"][0], engine.logits["hooked"][1]) < F32_NOISE
        assert distance(engine.logits["hooked"][0], engine.logits["hooked"][1]) > F32_NOISE
        engine.check_all_free()


@pytest.mark.parametrize("num_steps", [1, 2, 3, 4, 6])
def test_one_that_is_cancelled_on_the_way_leaves_nothing(plane_eyes: Eyes, num_steps: int) -> None:
    model, projector = plane_eyes
    with LookingEngine(model, projector, config(min_prefill_tokens=1, max_batch_tokens=70)) as engine:
        engine.look("gone", *[picture(f"{index}", width=150, height=150) for index in range(3)])
        for _ in range(num_steps):
            engine.core.step()
        engine.cancel("gone")
        engine.run()
        again = engine.look("again", *[picture(f"{index}", width=150, height=150) for index in range(3)])
        engine.run()
        assert len(again.token_ids) == 6
        engine.check_all_free()
