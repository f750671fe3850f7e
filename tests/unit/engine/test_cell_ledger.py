from __future__ import annotations

import pytest

from inference.engine.cell_ledger import CellLedger


def opened(ledger: CellLedger, num_tokens: int) -> int:
    sequence_id = ledger.open()
    ledger.grow(sequence_id, num_tokens)
    return sequence_id


def counts(ledger: CellLedger) -> tuple[int, int]:
    ledger.check_integrity()
    return ledger.num_used, ledger.num_idle


def test_ids_are_the_lowest_free_ones() -> None:
    ledger = CellLedger(3)
    assert [ledger.open() for _ in range(3)] == [0, 1, 2]
    ledger.close(2)
    ledger.close(0)
    assert (ledger.open(), ledger.open()) == (0, 2)
    with pytest.raises(RuntimeError, match="no free sequence id"):
        ledger.open()


def test_shared_cells_count_once_and_live_as_long_as_anyone_has_them() -> None:
    ledger = CellLedger(4)
    first, second, third = opened(ledger, 100), ledger.open(), ledger.open()
    ledger.share(first, second, 60)
    ledger.share(second, third, 40)
    ledger.grow(second, 5)
    assert counts(ledger) == (105, 0)
    assert [ledger.length(one) for one in (first, second, third)] == [100, 65, 40]
    ledger.close(first)
    assert counts(ledger) == (65, 0)
    ledger.close(second)
    assert counts(ledger) == (40, 0)
    ledger.close(third)
    assert counts(ledger) == (0, 0)


def test_who_copies_from_a_copy_shares_with_the_first() -> None:
    ledger = CellLedger(4)
    first, second, third = opened(ledger, 50), ledger.open(), ledger.open()
    ledger.share(first, second, 30)
    ledger.grow(second, 20)
    ledger.share(second, third, 45)
    assert counts(ledger) == (70, 0)
    assert [ledger.num_gained(one) for one in (first, second, third)] == [20, 5, 0]


def test_resizing_gives_up_the_end_only() -> None:
    ledger = CellLedger(3)
    first, second = opened(ledger, 50), ledger.open()
    ledger.share(first, second, 30)
    ledger.grow(second, 10)
    ledger.resize(second, 35)
    assert counts(ledger) == (55, 0)
    ledger.resize(second, 20)
    assert counts(ledger) == (50, 0)
    ledger.resize(first, 25)
    assert counts(ledger) == (25, 0)
    ledger.resize(second, 22)
    assert counts(ledger) == (27, 0)
    ledger.resize(first, 0)
    assert counts(ledger) == (22, 0)
    ledger.resize(second, 0)
    assert counts(ledger) == (0, 0)


def test_cells_are_idle_only_where_nobody_runs_on_them() -> None:
    ledger = CellLedger(4)
    entry, running, other = opened(ledger, 80), ledger.open(), opened(ledger, 7)
    ledger.set_idle(entry)
    assert counts(ledger) == (87, 80)
    ledger.share(entry, running, 50)
    assert counts(ledger) == (87, 30)
    ledger.set_idle(running)
    assert counts(ledger) == (87, 80)
    ledger.close(entry)
    ledger.close(running)
    assert counts(ledger) == (7, 0)
    ledger.close(other)


def test_what_cannot_be_shared_is_refused() -> None:
    ledger = CellLedger(3)
    first, second = opened(ledger, 10), ledger.open()
    with pytest.raises(RuntimeError, match="cannot be shared"):
        ledger.share(first, second, 11)
    ledger.share(first, second, 10)
    with pytest.raises(RuntimeError, match="cannot be shared"):
        ledger.share(first, second, 5)
