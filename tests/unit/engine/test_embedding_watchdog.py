from __future__ import annotations

from dataclasses import replace

from inference.domain.embeddings import EmbeddingStatistics
from inference.engine.embedding_watchdog import PATIENT_TOKENS, EmbeddingWatchdog
from inference.engine.watchdog import SLOW_STEP_FACTOR, Stall

BUSY = EmbeddingStatistics(num_jobs=2, num_tokens=300, total_begun=7, num_computing_tokens=40)


def watch(dog: EmbeddingWatchdog, statistics: EmbeddingStatistics, begin_ts: int, end_ts: int) -> list[Stall]:
    """A look every second at something that does not change."""
    looks = [dog.observe(statistics, float(now_ts)) for now_ts in range(begin_ts, end_ts + 1)]
    return [look for look in looks if look is not None]


def test_work_of_which_nothing_begins_is_a_stall_after_the_limit() -> None:
    dog = EmbeddingWatchdog(30.0)
    assert not watch(dog, BUSY, 0, 29)
    (stall,) = watch(dog, BUSY, 30, 30)
    assert (stall.stalled_s, stall.allowed_s) == (30, 30)
    assert "2 requests, 40 tokens being computed" in str(stall)


def test_a_batch_that_begins_is_progress() -> None:
    dog = EmbeddingWatchdog(30.0)
    for round_number in range(5):
        moved = replace(BUSY, total_begun=round_number)
        assert not watch(dog, moved, 29 * round_number, 29 * round_number + 28)


def test_those_who_wait_for_a_context_that_is_never_made_are_noticed() -> None:
    assert watch(EmbeddingWatchdog(10.0), EmbeddingStatistics(num_jobs=1, num_tokens=5), 0, 10)


def test_a_batch_that_nobody_wants_any_more_still_hangs() -> None:
    assert watch(EmbeddingWatchdog(10.0), replace(BUSY, num_jobs=0, num_tokens=0), 0, 10)


def test_where_nobody_waits_nothing_is_late() -> None:
    idle = EmbeddingStatistics(total_begun=7)
    dog = EmbeddingWatchdog(10.0)
    assert not watch(dog, idle, 0, 500)
    assert not watch(dog, BUSY, 501, 510)
    assert watch(dog, BUSY, 511, 511)


def test_long_texts_have_longer_and_what_was_measured_goes_before() -> None:
    long = replace(BUSY, num_computing_tokens=4 * PATIENT_TOKENS)
    assert not watch(EmbeddingWatchdog(10.0), long, 0, 39)
    assert watch(EmbeddingWatchdog(10.0), long, 0, 40)
    measured = replace(long, token_s=0.001)
    assert watch(EmbeddingWatchdog(10.0), measured, 0, 10)
    slow = replace(long, token_s=1.0)
    limit_s = int(SLOW_STEP_FACTOR * 4 * PATIENT_TOKENS)
    assert not watch(EmbeddingWatchdog(10.0), slow, 0, limit_s - 1)
    assert watch(EmbeddingWatchdog(10.0), slow, 0, limit_s)


def test_zero_is_no_watch() -> None:
    assert not watch(EmbeddingWatchdog(0.0), BUSY, 0, 500)
