"""How long will a newcomer wait? Foreseen from the work that is there and how fast work gets done.

Somebody who would wait in vain is better told at once, and told when to come back. The prediction
multiplies the tokens of everything that runs or waits with the time that a token took lately, and
divides by the number of requests that are served at once.

Rates are seconds for one token of one request, beside the others that ran with it. Prompt tokens
count whether they were cached or not, so hits in the prefix cache lower the rate. Of each rate the
worse is taken of an average that forgets (3/4 old, 1/4 new) and the 95th percentile of the last 64:
telling too late a time costs less than breaking a promise. Both are weighted by tokens: ten tokens of a
prompt take almost as long as a hundred, and their rate must not be that of the hundreds.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

WEIGHT_OF_NEW = 0.25
NUM_RATES_KEPT = 64
BYTES_PER_TOKEN = 4
NUM_ANSWERS_KEPT = 256
MIN_RETRY_AFTER_S, MAX_RETRY_AFTER_S = 1, 300


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all is not above: index ceil(share × n) − 1."""
    return sorted(values)[math.ceil(share * len(values)) - 1]


def retry_after_s(predicted_wait_s: float | None) -> int:
    """Whole seconds to tell a client: the prediction rounded up, 1 to 300; 1 where none is known."""
    if predicted_wait_s is None:
        return MIN_RETRY_AFTER_S
    return math.ceil(min(max(predicted_wait_s, MIN_RETRY_AFTER_S), MAX_RETRY_AFTER_S))


@dataclass(frozen=True, slots=True)
class Work:
    """Tokens that a request asks for; those of its answer are an estimate."""

    num_prompt_tokens: int
    num_decode_tokens: int

    @property
    def num_tokens(self) -> int:
        return self.num_prompt_tokens + self.num_decode_tokens


NO_WORK = Work(0, 0)


class Rate:
    """Seconds for one token, of one phase. `conservative` is the worse of average and 95th percentile,
    None before the first sample."""

    def __init__(self) -> None:
        self.conservative: float | None = None
        self._average_tokens = 0.0
        self._average_s = 0.0
        self._recent: deque[tuple[float, int]] = deque(maxlen=NUM_RATES_KEPT)

    def observe(self, num_tokens: int, duration_s: float) -> None:
        """What is not a measurement (no tokens, no time, an endless time) is left out."""
        if num_tokens <= 0 or duration_s <= 0 or not math.isfinite(duration_s):
            return
        weight = WEIGHT_OF_NEW if self._recent else 1.0
        self._average_tokens += weight * (num_tokens - self._average_tokens)
        self._average_s += weight * (duration_s - self._average_s)
        self._recent.append((duration_s / num_tokens, num_tokens))
        self.conservative = max(self._average_s / self._average_tokens, self._percentile(0.95))

    def _percentile(self, share: float) -> float:
        """The smallest rate that at least this share of all tokens did not exceed."""
        least = share * sum(num_tokens for _, num_tokens in self._recent)
        num_seen = 0
        for rate, num_tokens in sorted(self._recent):
            num_seen += num_tokens
            if num_seen >= least:
                return rate
        return max(self._recent)[0]


class WorkReservation:
    """Work that is counted from the submission on; `release()` ends that once, whoever calls it."""

    __slots__ = ("_estimator", "is_active", "work")

    def __init__(self, estimator: ServiceEstimator, work: Work, *, is_active: bool) -> None:
        self._estimator: ServiceEstimator | None = estimator
        self.work = work
        self.is_active = is_active

    def promote(self) -> None:
        """It waited and now runs. Does nothing where it runs already or has ended."""
        self.is_active = True

    def release(self) -> None:
        estimator, self._estimator = self._estimator, None
        if estimator is not None:
            estimator._drop(self)

    def __repr__(self) -> str:
        state = "released" if self._estimator is None else "active" if self.is_active else "queued"
        return f"<WorkReservation of {self.work}, {state}>"


@dataclass(frozen=True, slots=True)
class EstimatorStatistics:
    active: Work
    queued: Work
    num_reservations: int
    num_answers: int
    predicted_wait_s: float | None


class ServiceEstimator:
    """Not thread-safe by itself: the controller's mutex guards it.

    The work of what runs counts in full until it has ended, and a newcomer's own does not count.
    """

    def __init__(self, *, concurrency: int) -> None:
        self._concurrency = max(concurrency, 1)
        self._prefill = Rate()
        self._decode = Rate()
        self._answers: deque[int] = deque(maxlen=NUM_ANSWERS_KEPT)
        self._num_decode_estimate: int | None = None
        self._held: set[WorkReservation] = set()
        self._num_prompt_tokens = 0
        self._num_decode_tokens = 0

    def set_concurrency(self, concurrency: int) -> None:
        """So many requests are served at once."""
        self._concurrency = max(concurrency, 1)

    # -- learning -------------------------------------------------------------------------------

    def observe_completed(self, work: Work, *, prompt_s: float, decode_s: float) -> None:
        """An answer is complete: `work` is what it really was, and these are the times it took."""
        self._prefill.observe(work.num_prompt_tokens, prompt_s)
        self._decode.observe(work.num_decode_tokens, decode_s)
        self._answers.append(work.num_decode_tokens)
        self._num_decode_estimate = int(percentile(self._answers, 0.90))

    def expected_work(self, *, num_prompt_tokens: int, max_tokens: int) -> Work:
        """`max_tokens` is a ceiling that few answers reach: nine in ten are no longer than the 90th
        percentile so far. While nothing is known, it is all that there is."""
        known = self._num_decode_estimate
        return Work(num_prompt_tokens, max_tokens if known is None else min(max_tokens, known))

    def unread_work(self, *, num_prompt_bytes: int) -> Work:
        """Of a request whose prompt was not tokenized: about four bytes are a token, and the answer is
        like others."""
        return Work(-(-num_prompt_bytes // BYTES_PER_TOKEN), self._num_decode_estimate or 0)

    # -- predicting -----------------------------------------------------------------------------

    def predicted_wait_s(self, *, behind: Work = NO_WORK) -> float | None:
        """Until all that runs or waits now has ended, but for what waits `behind` a newcomer; None before
        anything was measured."""
        if self._prefill.conservative is None and self._decode.conservative is None:
            return None
        num_prompt = self._num_prompt_tokens - behind.num_prompt_tokens
        num_decode = self._num_decode_tokens - behind.num_decode_tokens
        return self.service_s(Work(num_prompt, num_decode))

    def service_s(self, work: Work) -> float:
        """What some work adds to the wait of those behind it; a rate that is not known counts as 0."""
        prompt_s = (self._prefill.conservative or 0.0) * work.num_prompt_tokens
        decode_s = (self._decode.conservative or 0.0) * work.num_decode_tokens
        return (prompt_s + decode_s) / self._concurrency

    def is_too_late(self, allowed_s: float | None, *, behind: Work = NO_WORK) -> bool:
        """The wait is predicted to last longer than is allowed (None: any wait is)."""
        predicted = self.predicted_wait_s(behind=behind)
        return allowed_s is not None and predicted is not None and predicted > allowed_s

    def reserve_queued(
        self, work: Work, *, allowed_s: float | None, behind: Work = NO_WORK
    ) -> WorkReservation | None:
        """Count work that waits; None, and nothing is counted, where it would come too late."""
        return None if self.is_too_late(allowed_s, behind=behind) else self._hold(work, is_active=False)

    def start_active(self, work: Work) -> WorkReservation:
        """Count work that did not have to wait."""
        return self._hold(work, is_active=True)

    def _hold(self, work: Work, *, is_active: bool) -> WorkReservation:
        reservation = WorkReservation(self, work, is_active=is_active)
        self._held.add(reservation)
        self._num_prompt_tokens += work.num_prompt_tokens
        self._num_decode_tokens += work.num_decode_tokens
        return reservation

    def _drop(self, reservation: WorkReservation) -> None:
        self._held.remove(reservation)
        self._num_prompt_tokens -= reservation.work.num_prompt_tokens
        self._num_decode_tokens -= reservation.work.num_decode_tokens

    def queued_work(self) -> Work:
        """All that waits."""
        return self._sum(is_active=False)

    def statistics(self) -> EstimatorStatistics:
        return EstimatorStatistics(
            active=self._sum(is_active=True),
            queued=self.queued_work(),
            num_reservations=len(self._held),
            num_answers=len(self._answers),
            predicted_wait_s=self.predicted_wait_s(),
        )

    def _sum(self, *, is_active: bool) -> Work:
        held = [one.work for one in self._held if one.is_active is is_active]
        return Work(sum(one.num_prompt_tokens for one in held), sum(one.num_decode_tokens for one in held))

    def check_integrity(self) -> None:
        """Raise AssertionError unless the sums are those of what is held."""
        active, queued = self._sum(is_active=True), self.queued_work()
        num_prompt = active.num_prompt_tokens + queued.num_prompt_tokens
        num_decode = active.num_decode_tokens + queued.num_decode_tokens
        assert num_prompt == self._num_prompt_tokens, repr(self)
        assert num_decode == self._num_decode_tokens, repr(self)

    def __repr__(self) -> str:
        wait_s = self.predicted_wait_s()
        wait = "unknown" if wait_s is None else f"{wait_s:.3f} s"
        return f"<ServiceEstimator: wait {wait}, {len(self._held)} requests, {self._concurrency} at once>"
