from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from inference.engine.config import EngineConfig
from inference.engine.llama import LlamaModel
from inference.engine.llama.batch import LlamaBatch
from inference.engine.llama.context import DecodeStatus, LlamaContext
from inference.engine.load_error import ModelLoadError
from inference.engine.plan import StepPlan

Rows = list[tuple[int, int, int, bool]]


def plan_of(rows: Rows) -> StepPlan:
    """(token, position, sequence, is output) for each row."""
    tokens, positions, sequences, outputs = zip(*rows, strict=True)
    wanted = [one for one in outputs if one]
    return StepPlan(
        np.array(tokens, np.int32),
        np.array(positions, np.int32),
        np.array(sequences, np.int32),
        np.array(outputs, np.int8),
        (),
        (),
        tuple(wanted),  # type: ignore[arg-type]  # only their number counts here
    )


def prompt(sequence_id: int, token_ids: list[int], begin: int = 0) -> Rows:
    last = len(token_ids) - 1
    return [(one, begin + index, sequence_id, index == last) for index, one in enumerate(token_ids)]


class Bench:
    def __init__(self, model: LlamaModel, **config: int) -> None:
        sizes = {"num_lanes": 4, "num_cells": 256, "max_batch_tokens": 64, "num_threads": 1, **config}
        self.context = LlamaContext(
            model, EngineConfig(max_prefill_tokens_beside_decodes=64, has_prefix_cache=False, **sizes)
        )
        self.batch = LlamaBatch(self.context.max_batch_tokens)

    def decode(self, rows: Rows) -> DecodeStatus:
        self.batch.fill(plan_of(rows))
        return self.context.decode(self.batch)


@pytest.fixture
def bench(tiny_model: LlamaModel) -> Iterator[Bench]:
    one = Bench(tiny_model)
    yield one
    one.context.close()


def test_logits_come_in_the_order_of_their_rows(bench: Bench) -> None:
    alone = {}
    for sequence_id in range(3):
        assert bench.decode(prompt(sequence_id, [10 + sequence_id, 20, 30])) is DecodeStatus.OK
        alone[sequence_id] = bench.context.logits(1)[0].copy()
    bench.context.clear()
    rows = prompt(2, [12, 20, 30]) + prompt(0, [10, 20, 30]) + prompt(1, [11, 20, 30])
    assert bench.decode(rows) is DecodeStatus.OK
    together = bench.context.logits(3)
    assert together.shape == (3, 49_152)
    for row, sequence_id in enumerate((2, 0, 1)):
        assert np.abs(together[row] - alone[sequence_id]).max() < 1e-3
    assert np.abs(alone[0] - alone[1]).max() > 0.1


def test_logits_can_be_written(bench: Bench) -> None:
    bench.decode(prompt(0, [10, 20]))
    logits = bench.context.logits(1)
    logits[0, 5] = 1e9
    assert int(bench.context.logits(1)[0].argmax()) == 5


def test_cells_are_counted_and_freed(bench: Bench) -> None:
    bench.decode(prompt(1, list(range(10, 40))))
    assert bench.context.last_position(1) == 29
    assert bench.context.last_position(0) == -1
    assert bench.context.remove(1, 10)
    assert bench.context.last_position(1) == 9
    assert bench.context.remove(1)
    assert bench.context.last_position(1) == -1
    assert bench.context.remove(3)


def test_a_full_pool_is_a_status_that_changes_nothing(bench: Bench) -> None:
    assert bench.context.num_cells == 256
    for begin in range(0, 256, 64):
        assert bench.decode(prompt(0, [10] * 64, begin)) is DecodeStatus.OK
    assert bench.decode(prompt(1, [11])) is DecodeStatus.NO_CELLS
    assert bench.decode(prompt(0, [10], 256)) is DecodeStatus.NO_CELLS
    assert bench.context.last_position(0) == 255
    assert bench.context.remove(0, 200)
    assert bench.decode(prompt(1, [11])) is DecodeStatus.OK


def test_a_copied_prefix_takes_no_cells_and_gives_the_same_logits(bench: Bench) -> None:
    token_ids = list(range(10, 60))
    bench.decode(prompt(0, token_ids))
    bench.decode(prompt(1, token_ids[:30]))
    bench.decode(prompt(1, token_ids[30:], 30))
    own = bench.context.logits(1)[0].copy()
    bench.context.remove(1)
    bench.context.copy(0, 1, 30)
    assert bench.context.last_position(1) == 29
    assert bench.decode(prompt(1, token_ids[30:], 30)) is DecodeStatus.OK
    assert np.abs(bench.context.logits(1)[0] - own).max() < 1e-3
    # 50 and 20 cells are used: exactly 186 are left, and the shared ones outlive their maker.
    bench.context.remove(0)
    bench.context.copy(1, 0, 50)
    for begin in range(0, 206, 64):
        rows = prompt(2, [10] * min(64, 206 - begin), begin)
        assert bench.decode(rows) is DecodeStatus.OK
    assert bench.decode(prompt(3, [10])) is DecodeStatus.NO_CELLS


def test_there_are_sequences_for_all_lanes_and_entries(tiny_model: LlamaModel) -> None:
    for sizes, expected in (
        ({"num_lanes": 8}, 72),
        ({"num_lanes": 250}, 256),
        ({"num_lanes": 30, "max_batch_tokens": 40, "max_prefill_tokens_beside_decodes": 40}, 40),
    ):
        context = LlamaContext(tiny_model, EngineConfig(num_cells=512, num_threads=1, **sizes))
        assert context.last_position(expected - 1) == -1
        with pytest.raises(ValueError, match="no sequence"):
            context.last_position(expected)
        context.close()


@pytest.mark.parametrize(
    "rows",
    [
        [(10, 4, 1, True)],
        [(10, 2, 1, True)],
        [(-1, 0, 0, True)],
        [(49_152, 0, 0, True)],
        [(10, 0, 4, True)],
        [(10, 0, -1, True)],
    ],
    ids=["gap", "backwards", "negative token", "token too high", "sequence too high", "negative sequence"],
)
def test_a_wrong_batch_is_a_status_that_changes_nothing(bench: Bench, rows: Rows) -> None:
    bench.decode(prompt(1, [10, 11, 12]))
    assert bench.decode(rows) is DecodeStatus.INVALID
    assert bench.context.last_position(1) == 2
    assert bench.decode(prompt(1, [13], 3)) is DecodeStatus.OK


def test_what_would_end_the_process_is_an_exception(bench: Bench) -> None:
    with pytest.raises(ValueError, match="does not fit 64"):
        bench.batch.fill(plan_of(prompt(0, [10] * 65)))
    with pytest.raises(ValueError, match="a batch of 0"):
        bench.batch.fill(StepPlan.build([], []))
    with pytest.raises(ValueError, match="17 outputs"):
        bench.decode([(10, index, 0, True) for index in range(17)])
    for sequence_id in (-1, 4, 300):
        with pytest.raises(ValueError, match="no sequence"):
            bench.context.remove(sequence_id)
        with pytest.raises(ValueError, match="no sequence"):
            bench.context.last_position(sequence_id)
        with pytest.raises(ValueError, match="no sequence"):
            bench.context.copy(sequence_id, 0, 1)
        with pytest.raises(ValueError, match="no sequence"):
            bench.context.copy(0, sequence_id, 1)
    with pytest.raises(ValueError, match="rows of logits"):
        bench.context.logits(17)


def test_an_interrupted_decode_is_aborted(bench: Bench) -> None:
    bench.decode(prompt(0, [10, 11]))
    bench.context.interrupt()
    assert bench.decode(prompt(0, [12], 2)) is DecodeStatus.ABORTED
    assert bench.context.last_position(0) == 1


def test_it_is_freed_once(tiny_model: LlamaModel) -> None:
    one = Bench(tiny_model)
    one.context.close()
    one.context.close()


def test_cells_that_do_not_fit_are_refused(tiny_model: LlamaModel) -> None:
    with pytest.raises(ModelLoadError, match="2000000000 KV cells need"):
        Bench(tiny_model, num_cells=2_000_000_000)


class UncheckedConfig(EngineConfig):
    """Lets sizes through that llama.cpp itself refuses."""

    def __post_init__(self) -> None:
        pass


def test_a_context_that_cannot_be_made_says_so(tiny_model: LlamaModel) -> None:
    config = UncheckedConfig(num_lanes=257, num_cells=256, has_prefix_cache=False)
    with pytest.raises(ModelLoadError, match="cannot make a context of 256 KV cells"):
        LlamaContext(tiny_model, config)
