from __future__ import annotations

import pytest

from inference.domain.admission import Submission
from inference.engine.lanes import LanePool
from inference.engine.sequence import InvalidTransition, Sequence, SequenceState
from tests.unit.engine.scripted_engine_parts import CountedGrant, RecordingSink, make_request


def make_sequence(prompt: int = 5) -> Sequence:
    lane = LanePool(1).acquire()
    assert lane is not None
    submission = Submission(make_request(prompt=prompt, max_tokens=10), RecordingSink(), 0.0)
    return Sequence(CountedGrant(submission), lane, order=1)


def test_a_prompt_is_computed_in_parts_and_then_decodes() -> None:
    sequence = make_sequence(prompt=5)
    assert sequence.state is SequenceState.PREFILLING
    assert sequence.pending(3).tolist() == [10, 11, 12]
    sequence.advance(3)
    assert sequence.num_remaining == 2
    sequence.advance(2)
    sequence.append(77)
    assert sequence.state is SequenceState.DECODING
    assert (sequence.num_remaining, sequence.last_token_id) == (1, 77)


def test_what_was_generated_is_computed_again_after_a_preemption() -> None:
    sequence = make_sequence(prompt=3)
    sequence.advance(3)
    for token_id in (50, 51, 52):
        sequence.append(token_id)
        if token_id != 52:
            sequence.advance(1)
    sequence.preempt()
    assert sequence.num_remaining == 6
    sequence.resume()
    assert sequence.pending(6).tolist() == [10, 11, 12, 50, 51, 52]
    sequence.advance(6)
    sequence.append(53)
    sequence.advance(1)
    sequence.append(54)
    sequence.preempt()
    sequence.resume()
    assert sequence.pending(8).tolist() == [10, 11, 12, 50, 51, 52, 53, 54]


def test_resync_tells_decoding_from_prefill() -> None:
    sequence = make_sequence(prompt=3)
    sequence.advance(3)
    sequence.append(50)
    sequence.resync(1)
    assert sequence.state is SequenceState.PREFILLING
    assert sequence.pending(3).tolist() == [11, 12, 50]
    sequence.resync(3)
    assert sequence.state is SequenceState.DECODING


@pytest.mark.parametrize("num_computed", [-1, 3, 4])
def test_resync_believes_only_what_can_be(num_computed: int) -> None:
    sequence = make_sequence(prompt=3)
    with pytest.raises(InvalidTransition):
        sequence.resync(num_computed)


def test_edges_that_do_not_exist_are_refused() -> None:
    sequence = make_sequence(prompt=3)
    with pytest.raises(InvalidTransition):
        sequence.resume()
    with pytest.raises(InvalidTransition):
        sequence.append(5)
    with pytest.raises(InvalidTransition):
        sequence.advance(4)
    sequence.preempt()
    with pytest.raises(InvalidTransition):
        sequence.preempt()
    sequence.end()
    with pytest.raises(InvalidTransition):
        sequence.end()


def test_its_description_holds_no_text() -> None:
    assert repr(make_sequence()) == "<Sequence r prefilling, lane 0, 0 of 5 tokens computed>"


def test_a_held_one_goes_on_from_what_it_has() -> None:
    sequence = make_sequence(prompt=3)
    sequence.advance(2)
    sequence.hold()
    assert sequence.state is SequenceState.HELD
    sequence.unhold()
    assert sequence.state is SequenceState.PREFILLING
    sequence.advance(1)
    sequence.append(50)
    sequence.hold()
    sequence.unhold()
    assert sequence.state is SequenceState.DECODING


def test_without_cells_a_held_one_comes_back_as_a_preempted_one_does() -> None:
    sequence = make_sequence(prompt=3)
    sequence.hold()
    assert sequence.has_given_up_cells
    sequence.unhold()
    assert sequence.state is SequenceState.PREEMPTED
    sequence.hold()
    sequence.unhold()
    assert sequence.state is SequenceState.PREEMPTED
    sequence.resume()
    sequence.advance(3)
    sequence.append(50)
    sequence.hold()
    assert not sequence.has_given_up_cells
    sequence.preempt()
    assert (sequence.state, sequence.num_preemptions) == (SequenceState.HELD, 1)
    assert sequence.has_given_up_cells
    sequence.unhold()
    assert sequence.state is SequenceState.PREEMPTED
    assert sequence.num_remaining == 4


def test_a_held_one_neither_computes_nor_leads_nor_is_held_twice() -> None:
    sequence = make_sequence(prompt=3)
    sequence.promise(2)
    with pytest.raises(InvalidTransition):
        sequence.unhold()
    sequence.hold()
    assert sequence.num_promised == 0
    for move in (sequence.hold, sequence.resume, sequence.stop_waiting):
        with pytest.raises(InvalidTransition):
            move()
    with pytest.raises(InvalidTransition):
        sequence.resync(1)
    with pytest.raises(InvalidTransition):
        sequence.adopt(1)
    sequence.end()
    for move in (sequence.hold, sequence.unhold):
        with pytest.raises(InvalidTransition):
            move()
