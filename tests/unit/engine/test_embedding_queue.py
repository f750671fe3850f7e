"""Whose texts are embedded next."""

from __future__ import annotations

import numpy as np
import pytest

from inference.domain.embeddings import EmbeddingRequest
from inference.domain.errors import ServerOverloaded, ServiceUnavailable, SkippyError
from inference.domain.priority import PriorityClass
from inference.engine.embedding_jobs import BatchLimits, EmbeddingJob, FloatArray, TextBatch, TextPart
from inference.engine.embedding_queue import EmbeddingQueue

LIMITS = BatchLimits(num_tokens=10, max_tokens=100, max_texts=100, can_part=True)
WHOLE = BatchLimits(num_tokens=10, max_tokens=100, max_texts=100, can_part=False)


def make_job(
    *lengths: int, user: int = 1, priority: PriorityClass = PriorityClass.NORMAL, name: str = "r"
) -> EmbeddingJob:
    texts = tuple(tuple(range(length)) for length in lengths)

    def unheard(outcome: FloatArray | SkippyError) -> None:
        raise AssertionError("the queue tells nobody")

    request = EmbeddingRequest(name, texts, user_id=user, priority=priority)
    return EmbeddingJob(request, when_started=lambda at_ts: None, when_ended=unheard)


def take(queue: EmbeddingQueue, limits: BatchLimits = LIMITS) -> TextBatch | TextPart | None:
    work = queue.take(limits)
    queue.check_integrity()
    return work


def rows_of(work: TextBatch | TextPart) -> FloatArray | None:
    if isinstance(work, TextPart):
        return np.ones((1, 2), np.float32) if work.is_last else None
    return np.array([[index, len(text)] for (_, index), text in zip(work.items, work.token_ids, strict=True)])


def run(queue: EmbeddingQueue, limits: BatchLimits = LIMITS) -> list[EmbeddingJob]:
    """Compute one batch; the jobs that it completed."""
    work = take(queue, limits)
    assert work is not None
    completed = queue.complete(work, rows_of(work))
    queue.check_integrity()
    return completed


def users(work: TextBatch | TextPart | None) -> list[int]:
    assert isinstance(work, TextBatch)
    return [job.request.user_id for job, _ in work.items]


def test_texts_of_one_request_share_batches_and_come_back_in_their_order() -> None:
    queue = EmbeddingQueue()
    job = make_job(4, 5, 6)
    queue.submit(job)
    first = take(queue)
    assert isinstance(first, TextBatch) and first.num_tokens == 9
    assert queue.complete(first, rows_of(first)) == []
    assert run(queue) == [job]
    assert job.rows.tolist() == [[0, 4], [1, 5], [2, 6]]
    assert take(queue) is None and queue.is_empty


def test_users_take_turns_text_by_text() -> None:
    queue = EmbeddingQueue()
    queue.submit(make_job(*[2] * 50, user=1))
    queue.submit(make_job(2, 2, user=2))
    assert users(take(queue)) == [1, 2, 1, 2, 1]


def test_the_more_urgent_class_goes_first_and_leaves_its_room_to_the_others() -> None:
    queue = EmbeddingQueue()
    queue.submit(make_job(*[2] * 9, user=1, priority=PriorityClass.BATCH))
    queue.submit(make_job(2, 2, user=2, priority=PriorityClass.INTERACTIVE))
    queue.submit(make_job(2, user=3))
    assert users(take(queue)) == [2, 2, 3, 1, 1]


def test_a_short_text_behind_thousands_of_others_is_in_the_next_batch() -> None:
    queue = EmbeddingQueue()
    queue.submit(make_job(*[5] * 2048, user=1))
    run(queue)
    short = make_job(3, user=2)
    queue.submit(short)
    assert short in run(queue)


def test_a_long_text_goes_in_parts_with_others_between_them() -> None:
    queue = EmbeddingQueue()
    long = make_job(25, user=1)
    queue.submit(long)
    first = take(queue)
    assert isinstance(first, TextPart) and (first.begin, first.end, first.is_last) == (0, 10, False)
    queue.complete(first, None)
    short = make_job(*[5] * 20, user=2)
    queue.submit(short)
    kinds = []
    while long.num_computed < 1:
        work = take(queue)
        assert work is not None
        kinds.append(type(work))
        queue.complete(work, rows_of(work))
    assert kinds == [TextBatch, TextPart, TextBatch, TextPart]


def test_two_long_texts_go_one_after_the_other() -> None:
    queue = EmbeddingQueue()
    one, other = make_job(15, user=1), make_job(15, user=2)
    queue.submit(one)
    queue.submit(other)
    assert [run(queue) for _ in range(4)] == [[], [one], [], [other]]


def test_parts_follow_what_the_time_allows_at_each_of_them() -> None:
    queue = EmbeddingQueue()
    queue.submit(make_job(100))
    ends = []
    for num_tokens in (10, 50, 20, 90):
        part = take(queue, BatchLimits(num_tokens, 100, 100, True))
        assert isinstance(part, TextPart)
        ends.append(part.end)
        queue.complete(part, rows_of(part))
    assert ends == [10, 60, 80, 100] and queue.is_empty


def test_where_texts_cannot_go_in_parts_a_long_one_goes_alone() -> None:
    queue = EmbeddingQueue()
    queue.submit(make_job(3, 30, 3))
    sizes = []
    while (work := take(queue, WHOLE)) is not None:
        sizes.append(work.num_tokens)
        queue.complete(work, rows_of(work))
    assert sizes == [3, 30, 3]


@pytest.mark.parametrize("limits", [LIMITS, WHOLE])
def test_no_text_waits_for_ever_behind_shorter_ones(limits: BatchLimits) -> None:
    queue = EmbeddingQueue(max_jobs=1000)
    large = make_job(10, user=1)
    queue.submit(large)
    for user in (2, 3, 4):
        queue.submit(make_job(*[3] * 200, user=user))
    num_batches = 0
    while not large.is_complete:
        run(queue, limits)
        num_batches += 1
    assert num_batches < 6


def test_a_batch_has_no_more_texts_than_there_are_sequences() -> None:
    queue = EmbeddingQueue()
    queue.submit(make_job(*[1] * 9))
    work = take(queue, BatchLimits(100, 100, 4, True))
    assert isinstance(work, TextBatch) and len(work.items) == 4


def test_a_cancelled_request_computes_no_more_of_its_texts() -> None:
    queue = EmbeddingQueue()
    job, other = make_job(*[5] * 8, user=1), make_job(5, user=2)
    queue.submit(job)
    work = take(queue)
    assert work is not None
    queue.cancel(job)
    queue.check_integrity()
    assert queue.complete(work, rows_of(work)) == []
    assert take(queue) is None
    queue.submit(other)
    assert run(queue) == [other]
    queue.cancel(other)  # too late, and harmless


def test_a_long_text_that_is_cancelled_in_the_middle_makes_room() -> None:
    queue = EmbeddingQueue()
    job, next_job = make_job(30, user=1), make_job(30, user=2)
    queue.submit(job)
    part = take(queue)
    assert part is not None
    queue.submit(next_job)
    queue.cancel(job)
    queue.complete(part, None)
    following = take(queue)
    assert isinstance(following, TextPart) and following.job is next_job and following.begin == 0


def test_what_failed_ends_whoever_was_in_it_and_nobody_else() -> None:
    queue = EmbeddingQueue()
    one, two, third = make_job(5, 5, user=1), make_job(5, user=2), make_job(9, user=3)
    for job in (one, two, third):
        queue.submit(job)
    work = take(queue)
    assert work is not None
    assert queue.fail(work) == [one, two]
    queue.check_integrity()
    assert run(queue) == [third] and queue.is_empty


def test_a_full_queue_refuses_and_says_when_to_come_back() -> None:
    queue = EmbeddingQueue(max_jobs=100, max_tokens=1000)
    queue.note_pace(0.1)
    for user in (1, 2, 3):
        queue.submit(make_job(300, user=user))
    with pytest.raises(ServerOverloaded) as refusal:
        queue.submit(make_job(200, user=4))
    assert refusal.value.retry_after_s == 90
    queue.submit(make_job(100, user=4))


def test_one_user_gets_no_more_than_half_of_the_queue() -> None:
    queue = EmbeddingQueue(max_jobs=8, max_tokens=1000)
    for _ in range(4):
        queue.submit(make_job(10, user=1))
    with pytest.raises(ServerOverloaded, match="own"):
        queue.submit(make_job(10, user=1))
    queue.submit(make_job(10, user=2))
    with pytest.raises(ServerOverloaded):
        queue.submit(make_job(600, user=2))


def test_the_largest_request_is_let_in_where_nothing_waits() -> None:
    queue = EmbeddingQueue(max_jobs=4, max_tokens=100)
    queue.submit(make_job(5000))
    assert queue.statistics().num_tokens == 5000


def test_closing_takes_out_those_that_were_not_begun_with() -> None:
    queue = EmbeddingQueue()
    begun, waiting = make_job(5, 5, 5, user=1), make_job(5, user=2)
    queue.submit(begun)
    work = take(queue)
    assert work is not None
    queue.submit(waiting)
    error = ServiceUnavailable("The service is shutting down.")
    assert queue.refuse(error) == [waiting]
    with pytest.raises(ServiceUnavailable):
        queue.submit(make_job(1))
    queue.complete(work, rows_of(work))
    assert run(queue) == [begun]
    assert queue.clear() == []


def test_statistics_count_what_is_left() -> None:
    queue = EmbeddingQueue()
    queue.submit(make_job(4, 5, 6))
    run(queue)
    statistics = queue.statistics()
    assert (statistics.num_jobs, statistics.num_texts, statistics.num_tokens) == (1, 1, 6)
    assert (statistics.total_batches, statistics.total_texts, statistics.total_tokens) == (1, 2, 9)
    assert "1 requests" in repr(queue)


@pytest.mark.parametrize("is_completed", [True, False])
def test_what_is_being_computed_is_told_until_it_ends_however_it_ends(is_completed: bool) -> None:
    queue = EmbeddingQueue()
    queue.submit(make_job(4, 5))
    assert (queue.statistics().total_begun, queue.statistics().num_computing_tokens) == (0, 0)
    work = take(queue)
    assert work is not None
    assert (queue.statistics().total_begun, queue.statistics().num_computing_tokens) == (1, 9)
    if is_completed:
        queue.complete(work, rows_of(work))
    else:
        queue.fail(work)
    assert (queue.statistics().total_begun, queue.statistics().num_computing_tokens) == (1, 0)
    assert take(queue) is None
    assert queue.statistics().total_begun == 1
