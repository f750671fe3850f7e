"""Whose texts are embedded next? The more urgent class first; in a class, each user's in turn, text by text.

A request may have 2,048 long texts and take minutes, and another one a word. So nothing is computed by
requests: a batch takes one text of each user in turn until it is full, and a text that is longer than a
batch goes in parts, with a batch of the others between any two of them.

Plain state and decisions behind one short mutex; no thread, no clock but the caller's.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Sequence
from math import ceil

from inference.domain.embeddings import EmbeddingStatistics
from inference.domain.errors import ServerOverloaded, SkippyError
from inference.domain.priority import PriorityClass
from inference.domain.rejection_reason import RejectionReason
from inference.engine.embedding_jobs import (
    BatchLimits,
    EmbeddingJob,
    FloatArray,
    TextBatch,
    TextPart,
)

MAX_RETRY_AFTER_S = 300
_CLASSES = tuple(PriorityClass)

_Line = OrderedDict[int, deque[EmbeddingJob]]


class EmbeddingQueue:
    """At most `max_jobs` with `max_tokens` together, of one user at most half of both; a request always
    fits where its user has nothing else here and there is room for nothing less.

    Jobs leave it when they end, each exactly once: `complete`, `fail`, `cancel`, `refuse`, `clear`.
    """

    def __init__(self, *, max_jobs: int = 256, max_tokens: int = 1_000_000) -> None:
        self._max_jobs = max_jobs
        self._max_tokens = max_tokens
        self._lock = threading.Lock()
        self._lines: dict[PriorityClass, _Line] = {one: OrderedDict() for one in _CLASSES}
        self._open: dict[EmbeddingJob, None] = {}
        self._refusal: SkippyError | None = None
        self._long: TextPart | None = None
        """The part of a long text that was taken last, of a text that is not done."""
        self._was_part = False
        self._token_s: float | None = None
        self._num_computing_tokens = 0
        self._total_texts = self._total_tokens = self._total_batches = self._total_begun = 0

    # -- callers ----------------------------------------------------------------------------------

    def submit(self, job: EmbeddingJob) -> None:
        """Raises ServerOverloaded, or what the queue refuses newcomers with."""
        request = job.request
        with self._lock:
            if self._refusal is not None:
                raise self._refusal
            waiting = [one.num_tokens_left for one in self._open]
            own = [one.num_tokens_left for one in self._open if one.request.user_id == request.user_id]
            if own and (
                2 * (len(own) + 1) > self._max_jobs or 2 * (sum(own) + request.num_tokens) > self._max_tokens
            ):
                raise self._overloaded("Your own requests take the half", sum(own))
            if waiting and (
                len(waiting) >= self._max_jobs or sum(waiting) + request.num_tokens > self._max_tokens
            ):
                raise self._overloaded(f"{len(waiting)} requests are waiting", sum(waiting))
            self._open[job] = None
            line = self._lines[request.priority]
            line.setdefault(request.user_id, deque()).append(job)

    def cancel(self, job: EmbeddingJob) -> None:
        """Nobody wants it any more: what was not computed of it never is."""
        with self._lock:
            self._end(job)

    def refuse(self, error: SkippyError) -> list[EmbeddingJob]:
        """Take no newcomers from now on. Those not begun with are taken out, to be told `error`."""
        with self._lock:
            self._refusal = error
            return self._end_all([job for job in self._open if not job.num_taken])

    def clear(self) -> list[EmbeddingJob]:
        """Take all of them out, to be told why."""
        with self._lock:
            return self._end_all(list(self._open))

    # -- the thread that computes -----------------------------------------------------------------

    def take(self, limits: BatchLimits) -> TextBatch | TextPart | None:
        """What is computed next; None where nothing waits. Ends with `complete` or `fail`."""
        with self._lock:
            work = self._next_work(limits)
            if work is not None:
                self._num_computing_tokens = work.num_tokens
                self._total_begun += 1
            return work

    def complete(self, work: TextBatch | TextPart, rows: FloatArray | None) -> list[EmbeddingJob]:
        """Keep what was computed: a row for each text, None after a part that is not the last. Returns the
        jobs that this has completed, to be told."""
        with self._lock:
            self._num_computing_tokens = 0
            self._total_batches += 1
            self._total_tokens += work.num_tokens
            if rows is None:
                return []
            items = work.items if isinstance(work, TextBatch) else ((work.job, work.index),)
            for (job, index), row in zip(items, rows, strict=True):
                self._total_texts += 1
                if not job.is_ended:
                    job.keep(index, row)
            completed = [job for job in work.jobs if not job.is_ended and job.is_complete]
            for job in completed:
                self._end(job)
            return completed

    def fail(self, work: TextBatch | TextPart) -> list[EmbeddingJob]:
        """It could not be computed; returns the jobs that end by that, to be told."""
        with self._lock:
            self._num_computing_tokens = 0
            failed = [job for job in work.jobs if not job.is_ended]
            for job in failed:
                self._end(job)
            return failed

    def note_pace(self, token_s: float) -> None:
        """What a token takes, for Retry-After."""
        self._token_s = token_s

    # -- inside -----------------------------------------------------------------------------------

    def _next_work(self, limits: BatchLimits) -> TextBatch | TextPart | None:
        long = self._next_part(limits)
        if long is not None and not self._was_part:
            return self._take_part(long)
        batch = self._take_batch(limits)
        if batch is not None:
            self._was_part = False
            return batch
        # A long text may have come to the head of a line just now.
        long = self._next_part(limits)
        return None if long is None else self._take_part(long)

    def _next_part(self, limits: BatchLimits) -> TextPart | None:
        """Of the long text that is under way, or else of the first one at the head of a line."""
        if self._long is not None:
            job, index, begin = self._long.job, self._long.index, self._long.end
        else:
            job_ahead = self._long_ahead(limits)
            if job_ahead is None:
                return None
            job, index, begin = job_ahead, job_ahead.num_taken, 0
        end = min(len(job.request.token_ids[index]), begin + limits.num_tokens)
        return TextPart(job, index, begin, end)

    def _long_ahead(self, limits: BatchLimits) -> EmbeddingJob | None:
        if not limits.can_part:
            return None
        for line in self._lines.values():
            for jobs in line.values():
                if len(jobs[0].next_text) > limits.num_tokens:
                    return jobs[0]
        return None

    def _take_part(self, part: TextPart) -> TextPart:
        self._was_part = True
        if not part.begin:
            self._advance(part.job)
        self._long = None if part.is_last else part
        return part

    def _take_batch(self, limits: BatchLimits) -> TextBatch | None:
        items: list[tuple[EmbeddingJob, int]] = []
        room = limits.num_tokens
        for line in self._lines.values():
            room = self._fill(items, line, room, limits)
        return TextBatch(tuple(items)) if items else None

    def _fill(
        self, items: list[tuple[EmbeddingJob, int]], line: _Line, room: int, limits: BatchLimits
    ) -> int:
        """One text of each user in turn, while there is room; returns what is left of it."""
        num_passed, misfit = 0, None
        while line and num_passed < len(line) and len(items) < limits.max_texts:
            user_id, jobs = next(iter(line.items()))
            line.move_to_end(user_id)
            length = len(jobs[0].next_text)
            # Where a text cannot go in parts, one that is longer than the time allows goes alone.
            is_alone = not items and not limits.can_part and length <= limits.max_tokens
            if length > room and not is_alone:
                num_passed += 1
                misfit = user_id if misfit is None else misfit
                continue
            num_passed = 0
            items.append((jobs[0], jobs[0].num_taken))
            room -= length
            self._advance(jobs[0])
        if misfit is not None and misfit in line:
            # First in the next batch, or shorter texts of others could pass it for ever.
            line.move_to_end(misfit, last=False)
        return room

    def _advance(self, job: EmbeddingJob) -> None:
        """Its next text was taken."""
        job.num_taken += 1
        if not job.has_more:
            self._leave_line(job)

    def _leave_line(self, job: EmbeddingJob) -> None:
        line, user_id = self._lines[job.request.priority], job.request.user_id
        jobs = line.get(user_id)
        if jobs is not None and job in jobs:
            jobs.remove(job)
            if not jobs:
                del line[user_id]

    def _end_all(self, jobs: list[EmbeddingJob]) -> list[EmbeddingJob]:
        for job in jobs:
            self._end(job)
        return jobs

    def _end(self, job: EmbeddingJob) -> None:
        if job.is_ended:
            return
        job.is_ended = True
        self._open.pop(job, None)
        self._leave_line(job)
        if self._long is not None and self._long.job is job:
            self._long = None

    def _overloaded(self, what: str, num_tokens: int) -> ServerOverloaded:
        wait_s = None if self._token_s is None else num_tokens * self._token_s
        retry_after_s = 1 if wait_s is None else min(MAX_RETRY_AFTER_S, max(1, ceil(wait_s)))
        return ServerOverloaded(
            f"The queue for embeddings is full: {what}. Please retry later.",
            retry_after_s=retry_after_s,
            reason=RejectionReason.QUEUE_FULL,
        )

    # -- for those who watch ----------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        return not self._open

    def statistics(self) -> EmbeddingStatistics:
        with self._lock:
            return EmbeddingStatistics(
                num_jobs=len(self._open),
                num_texts=sum([job.num_texts - job.num_computed for job in self._open]),
                num_tokens=sum([job.num_tokens_left for job in self._open]),
                total_texts=self._total_texts,
                total_tokens=self._total_tokens,
                total_batches=self._total_batches,
                total_begun=self._total_begun,
                num_computing_tokens=self._num_computing_tokens,
                token_s=self._token_s,
            )

    def check_integrity(self) -> None:
        """Raise AssertionError unless lines and jobs agree."""
        with self._lock:
            in_lines: Sequence[EmbeddingJob] = [
                job for line in self._lines.values() for jobs in line.values() for job in jobs
            ]
            assert len(set(in_lines)) == len(in_lines), "a job stands in two places"
            assert set(in_lines) == {job for job in self._open if job.has_more}, "a job is lost"
            assert all(jobs for line in self._lines.values() for jobs in line.values()), "an empty line"
            assert self._long is None or self._long.job in self._open, "a part of a job that has ended"

    def __repr__(self) -> str:
        return (
            f"<EmbeddingQueue of {len(self._open)} requests, {'open' if self._refusal is None else 'closed'}>"
        )
