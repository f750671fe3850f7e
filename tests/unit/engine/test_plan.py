from __future__ import annotations

import numpy as np

from inference.domain.admission import Submission
from inference.engine.lanes import LanePool
from inference.engine.plan import PrefillChunk, StepPlan
from inference.engine.sequence import Sequence
from tests.unit.engine.scripted_engine_parts import CountedGrant, RecordingSink, make_request

LANES = LanePool(8)


def make_sequence(name: str, prompt: int, *, generated: tuple[int, ...] = ()) -> Sequence:
    lane = LANES.acquire()
    assert lane is not None
    submission = Submission(make_request(name, prompt=prompt, max_tokens=100), RecordingSink(), 0.0)
    sequence = Sequence(CountedGrant(submission), lane, order=1)
    lane.release()
    for token_id in generated:
        sequence.advance(sequence.num_remaining)
        sequence.append(token_id)
    return sequence


def test_rows_are_decodes_first_then_chunks_with_their_positions() -> None:
    first, second = make_sequence("a", 3, generated=(50,)), make_sequence("b", 2, generated=(60, 61))
    part, whole = make_sequence("c", 9), make_sequence("d", 2)
    part.advance(4)
    plan = StepPlan.build(
        [first, second],
        [PrefillChunk(part, 3, is_last=False), PrefillChunk(whole, 2, is_last=True)],
    )
    assert plan.token_ids.tolist() == [50, 61, 14, 15, 16, 10, 11]
    assert plan.positions.tolist() == [3, 3, 4, 5, 6, 0, 1]
    assert plan.sequence_ids.tolist() == [
        first.sequence_id, second.sequence_id, *[part.sequence_id] * 3, *[whole.sequence_id] * 2
    ]  # fmt: skip
    assert plan.is_output.tolist() == [1, 1, 0, 0, 0, 0, 1]
    assert plan.outputs == (first, second, whole)
    assert plan.sequences == (first, second, part, whole)
    assert (plan.num_tokens, plan.num_prefill_tokens) == (7, 5)


def test_arrays_have_the_types_that_llama_cpp_reads() -> None:
    plan = StepPlan.build([make_sequence("a", 3, generated=(50,))], [])
    for array in (plan.token_ids, plan.positions, plan.sequence_ids):
        assert array.dtype == np.int32
    assert plan.is_output.dtype == np.int8


def test_a_plan_does_not_change_when_its_sequences_move_on() -> None:
    sequence = make_sequence("a", 5)
    plan = StepPlan.build([], [PrefillChunk(sequence, 5, is_last=True)])
    sequence.advance(5)
    sequence.append(99)
    assert plan.token_ids.tolist() == [10, 11, 12, 13, 14]
    assert plan.outputs == (sequence,)


def test_a_repeated_plan_is_what_building_it_again_would_give() -> None:
    decoding = [make_sequence("a", 3, generated=(50,)), make_sequence("b", 2, generated=(60, 61))]
    plan = StepPlan.build(decoding, [])
    for sequence, token_id in zip(decoding, (70, 71), strict=True):
        sequence.advance(1)
        sequence.append(token_id)
    assert plan.is_for(decoding)
    repeated, built = plan.repeat(), StepPlan.build(decoding, [])
    assert repeated is plan
    for name in ("token_ids", "positions", "sequence_ids", "is_output"):
        assert getattr(repeated, name).tolist() == getattr(built, name).tolist()
    assert (repeated.decoding, repeated.outputs) == (built.decoding, built.outputs)


def test_only_the_same_sequences_in_the_same_order_repeat_a_plan() -> None:
    first, second = make_sequence("a", 3, generated=(50,)), make_sequence("b", 2, generated=(60,))
    prompt = make_sequence("c", 4)
    assert not StepPlan.build([first, second], []).is_for([second, first])
    assert not StepPlan.build([first, second], []).is_for([first])
    assert not StepPlan.build([first], [PrefillChunk(prompt, 2, is_last=False)]).is_for([first])
