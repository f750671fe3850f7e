"""An engine without a model: how fast it is with how many requests at once is a formula.

Time is a fake clock's. The requests that run share the engine: with n of them, each gets a token
every t(n) seconds. How much work a request is, varies by chance.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

from inference.admission.concurrency import ConcurrencySettings  # noqa: E402
from inference.admission.controller import AdmissionController  # noqa: E402
from inference.admission.lane_grant import LaneGrant  # noqa: E402
from inference.admission.queue_ticket import QueueTicket  # noqa: E402
from inference.domain.admission import Submission  # noqa: E402
from inference.domain.admission_events import AdmissionEvent, ConcurrencyAdapted  # noqa: E402
from inference.domain.cache_affinity import CacheAffinity, PrefixCacheStatistics  # noqa: E402
from inference.domain.requests import GenerationRequest  # noqa: E402
from inference.domain.timings import Timings  # noqa: E402

Curve = Callable[[int], float]
NUM_PROMPT_TOKENS, NUM_OUTPUT_TOKENS, NUM_QUEUED = 50, 50, 8


class SimulatedClock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def unix_time(self) -> float:
        return self.now


class EmptyCache:
    statistics = PrefixCacheStatistics()

    def matched_tokens(self, *, namespace: str, prompts: object, num_shared: object) -> list[int]:
        return [0] * len(prompts)  # type: ignore[arg-type]


@dataclass
class Running:
    grant: LaneGrant
    ticket: QueueTicket
    started_s: float
    work_left: float


@dataclass(frozen=True)
class Run:
    """What came of one simulated run. `limits` are the times at which the limit changed, and to what."""

    tokens_per_s: float
    p95_latency_s: float
    mean_limit: float
    limits: tuple[tuple[float, int], ...]
    decisions: tuple[ConcurrencyAdapted, ...]


def simulate(
    curve: Curve, settings: ConcurrencySettings, *, num_lanes: int, num_requests: int, noise: float, seed: int
) -> Run:
    """Serve so many requests, with others always waiting. The first quarter is not measured."""
    chance = random.Random(seed)
    clock = SimulatedClock()
    decisions: list[ConcurrencyAdapted] = []
    limits = []

    def record(event: AdmissionEvent) -> None:
        if isinstance(event, ConcurrencyAdapted):
            decisions.append(event)
            if event.current_limit != event.previous_limit:
                limits.append((clock.now, event.current_limit))

    admission = AdmissionController(
        num_lanes=num_lanes,
        max_waiting=10_000,
        num_cells=10**9,
        clock=clock,
        record=record,
        concurrency=settings,
    )
    limits.append((0.0, admission.statistics().limiter.limit))
    cache: CacheAffinity = EmptyCache()
    tickets: dict[Submission, QueueTicket] = {}
    running: list[Running] = []
    latencies: list[float] = []
    num_submitted = num_done = 0
    measured_from_s = 0.0
    num_warm_up = num_requests // 4
    while num_done < num_requests:
        while len(tickets) < NUM_QUEUED + num_lanes - len(running):
            num_submitted += 1
            request = GenerationRequest(str(num_submitted), (1,) * NUM_PROMPT_TOKENS, NUM_OUTPUT_TOKENS)
            submission = Submission(request, object(), clock.now)
            tickets[submission] = admission.submit(submission)
        while (grant := admission.elect(cache)) is not None:
            work = (NUM_PROMPT_TOKENS + NUM_OUTPUT_TOKENS) * chance.uniform(1 - noise, 1 + noise)
            running.append(Running(grant, tickets.pop(grant.submission), clock.now, work))
        step_s = curve(len(running))
        least = min(one.work_left for one in running)
        clock.now += least * step_s
        for one in running:
            one.work_left -= least
        for one in [one for one in running if one.work_left <= 1e-9]:
            running.remove(one)
            latency_s = clock.now - one.started_s
            one.grant.release(num_output_tokens=NUM_OUTPUT_TOKENS)
            one.ticket.note_completed(
                Timings(
                    num_prompt_tokens=NUM_PROMPT_TOKENS,
                    num_predicted_tokens=NUM_OUTPUT_TOKENS,
                    prompt_s=latency_s / 2,
                    predicted_s=latency_s / 2,
                )
            )
            num_done += 1
            if num_done == num_warm_up:
                measured_from_s = clock.now
            elif num_done > num_warm_up:
                latencies.append(latency_s)
    latencies.sort()
    return Run(
        tokens_per_s=len(latencies) * (NUM_PROMPT_TOKENS + NUM_OUTPUT_TOKENS) / (clock.now - measured_from_s),
        p95_latency_s=latencies[int(0.95 * len(latencies))],
        mean_limit=_mean_limit(limits, measured_from_s, clock.now),
        limits=(*limits, (clock.now, limits[-1][1])),
        decisions=tuple(decisions),
    )


def _mean_limit(limits: list[tuple[float, int]], from_s: float, to_s: float) -> float:
    """Weighted by time."""
    ends = [at_s for at_s, _ in limits[1:]] + [to_s]
    spans = [
        (max(0.0, end_s - max(at_s, from_s)), limit)
        for (at_s, limit), end_s in zip(limits, ends, strict=True)
    ]
    return sum(span_s * limit for span_s, limit in spans) / (to_s - from_s)
