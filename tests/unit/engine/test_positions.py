from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from inference.domain.admission import Submission
from inference.domain.media import MediaGrid
from inference.domain.media_run import MediaRun
from inference.engine.lanes import LanePool
from inference.engine.plan import PrefillChunk, StepPlan
from inference.engine.positions import PositionMap
from inference.engine.sequence import Sequence
from inference.engine.sequence_media import uncut
from tests.unit.engine.scripted_engine_parts import CountedGrant, RecordingSink, make_request


def in_plane(start: int, rows: int, columns: int) -> MediaRun:
    """A picture that takes as many positions as its longer side is long."""
    places = [(0, top, left) for top in range(rows) for left in range(columns)]
    grid = MediaGrid(np.array(places, dtype=np.int32).T, max(rows, columns))
    return MediaRun(start, np.ones((rows * columns, 2), np.float32), grid=grid)


# Text 0 … 4, a picture of 3 × 4 at 5 … 16, text 17 … 19, one of 2 × 2 at 20 … 23, text.
RUNS = (in_plane(5, 3, 4), in_plane(20, 2, 2))


def test_without_pictures_they_are_the_same() -> None:
    plain = PositionMap([MediaRun(2, np.ones((5, 2), np.float32))])
    for count in range(10):
        assert plain.position(count) == count
        assert plain.num_tokens(count - 1) == count
        assert plain.uncut(count) == count


@pytest.mark.parametrize(
    ("num_tokens", "position"),
    [(0, 0), (4, 4), (5, 5), (6, 5), (16, 5), (17, 9), (19, 11), (20, 12), (23, 12), (24, 14), (30, 20)],
)
def test_behind_a_picture_positions_are_fewer(num_tokens: int, position: int) -> None:
    assert PositionMap(RUNS).position(num_tokens) == position


@pytest.mark.parametrize(
    ("last_position", "num_tokens"),
    [(-1, 0), (0, 1), (4, 5), (5, 5), (8, 5), (9, 18), (11, 20), (12, 20), (13, 20), (14, 25), (20, 31)],
)
def test_what_has_cells_for_sure(last_position: int, num_tokens: int) -> None:
    assert PositionMap(RUNS).num_tokens(last_position) == num_tokens


def test_tokens_behind_which_text_stands_are_known_exactly() -> None:
    positions = PositionMap(RUNS)
    for count in [*range(1, 6), *range(18, 21), *range(25, 40)]:
        assert positions.num_tokens(positions.position(count) - 1) == count


def test_no_picture_is_cut() -> None:
    assert [PositionMap(RUNS).uncut(count) for count in (5, 6, 16, 17, 20, 21, 24)] == [
        5,
        5,
        5,
        17,
        20,
        20,
        24,
    ]


def looking(name: str) -> Sequence:
    lane = LanePool(1).acquire()
    assert lane is not None
    request = make_request(name, prompt=30, max_tokens=100)
    ids = list(request.prompt_token_ids)
    for run in RUNS:
        ids[run.start : run.end] = [-1] * run.num_tokens
    made = replace(request, prompt_token_ids=tuple(ids), media=RUNS)
    return Sequence(CountedGrant(Submission(made, RecordingSink(), 0.0)), lane, order=1)


def test_a_plan_has_the_places_of_its_rows() -> None:
    sequence = looking("a")
    sequence.advance(5)
    plan = StepPlan.build_media([PrefillChunk(sequence, 6, is_last=False)])
    assert plan.places is not None
    assert plan.places.tolist() == [[5] * 6, [5, 5, 5, 5, 6, 6], [5, 6, 7, 8, 5, 6], [0] * 6]
    sequence.advance(6)
    rest = StepPlan.build_media([PrefillChunk(sequence, 6, is_last=False)])
    assert rest.places is not None
    assert rest.places[1].tolist() == [6, 6, 7, 7, 7, 7]
    sequence.advance(6)
    text = StepPlan.build([], [PrefillChunk(sequence, 3, is_last=False)])
    assert text.positions.tolist() == [9, 10, 11]
    assert text.places is None


def test_pictures_of_several_are_side_by_side_in_a_plan() -> None:
    one, other = looking("a"), looking("b")
    one.advance(5)
    other.advance(20)
    plan = StepPlan.build_media([PrefillChunk(one, 12, is_last=False), PrefillChunk(other, 4, is_last=False)])
    assert plan.places is not None
    assert plan.places.shape == (4, 16)
    assert plan.places[0].tolist() == [5] * 12 + [12] * 4


def test_what_is_generated_stands_behind_fewer_positions() -> None:
    sequence = looking("a")
    sequence.advance(30)
    sequence.append(50)
    plan = StepPlan.build([sequence], [])
    assert plan.positions.tolist() == [20]
    sequence.advance(1)
    sequence.append(51)
    assert plan.repeat().positions.tolist() == [21]


@pytest.mark.parametrize(
    ("num_tokens", "num_shared"), [(5, 5), (6, 5), (17, 5), (18, 18), (24, 20), (25, 25)]
)
def test_nothing_is_shared_that_ends_with_a_picture_in_a_plane(num_tokens: int, num_shared: int) -> None:
    assert uncut(looking("a"), num_tokens) == num_shared
