from __future__ import annotations

from inference.hosting.retries import FIRST_PAUSE_S, HEALTHY_S, LONGEST_PAUSE_S, Retries


def test_pauses_grow_to_a_bound_and_shrink_where_it_has_worked_for_long():
    retries = Retries()
    assert retries.remaining_s(0.0) == 0.0
    pauses = []
    for number in range(20):
        retries.note_failure(1000.0 * number)
        pauses.append(retries.remaining_s(1000.0 * number))
    assert pauses[:3] == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, 4 * FIRST_PAUSE_S]
    assert pauses == sorted(pauses) and pauses[-1] == LONGEST_PAUSE_S
    retries.note_failure(50_000.0, healthy_s=HEALTHY_S)
    assert retries.remaining_s(50_000.0) == FIRST_PAUSE_S
    assert retries.remaining_s(50_000.0 + FIRST_PAUSE_S) == 0.0
    retries.note_failure(60_000.0)
    retries.reset()
    assert retries.remaining_s(60_000.0) == 0.0
