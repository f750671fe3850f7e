"""Stand-ins at admission's seams, and admission with what a test does not care about filled in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from inference.admission.concurrency import ConcurrencySettings
from inference.admission.controller import AdmissionController
from inference.admission.lane_grant import LaneGrant
from inference.domain.admission import Submission
from inference.domain.admission_events import AdmissionEvent
from inference.domain.cache_affinity import PrefixCacheStatistics, TokenIds
from inference.domain.clock import Clock, SystemClock
from inference.domain.priority import PriorityClass
from inference.domain.requests import GenerationRequest


class NoCache:
    """A CacheAffinity where nothing was computed before."""

    statistics = PrefixCacheStatistics()

    def matched_tokens(
        self, *, namespace: str, prompts: Sequence[TokenIds], num_shared: Sequence[int]
    ) -> list[int]:
        return [0] * len(prompts)


class KnownCache:
    """A CacheAffinity that has so many tokens of prompts that begin with a certain one."""

    statistics = PrefixCacheStatistics()

    def __init__(self, num_by_first_token: Mapping[int, int]) -> None:
        self.num_by_first_token = num_by_first_token
        self.num_asked = 0

    def matched_tokens(
        self, *, namespace: str, prompts: Sequence[TokenIds], num_shared: Sequence[int]
    ) -> list[int]:
        self.num_asked += len(prompts)
        return [self.num_by_first_token.get(int(np.asarray(one)[0]), 0) for one in prompts]


class Events(list[AdmissionEvent]):
    """A recorder's `record_event` that keeps everything."""

    def __call__(self, event: AdmissionEvent) -> None:
        self.append(event)


def make_admission(
    *,
    num_lanes: int = 2,
    max_waiting: int = 16,
    num_cells: int = 1000,
    clock: Clock | None = None,
    events: Events | None = None,
    concurrency: ConcurrencySettings | None = None,
) -> AdmissionController:
    return AdmissionController(
        num_lanes=num_lanes,
        max_waiting=max_waiting,
        num_cells=num_cells,
        clock=clock or SystemClock(),
        record=Events() if events is None else events,
        concurrency=concurrency or ConcurrencySettings(),
    )


def make_submission(
    name: str = "r",
    *,
    prompt: int | tuple[int, ...] = 10,
    max_tokens: int = 10,
    user: int = 1,
    priority: PriorityClass = PriorityClass.NORMAL,
    namespace: str = "",
    submitted_ts: float = 0.0,
    deadline_ts: float | None = None,
) -> Submission:
    """`prompt` is the token ids, or how many of them."""
    ids = tuple(range(prompt)) if isinstance(prompt, int) else prompt
    request = GenerationRequest(
        name, ids, max_tokens, cache_namespace=namespace, user_id=user, priority=priority
    )
    return Submission(request, object(), submitted_ts, deadline_ts)


def name_of(grant: LaneGrant | None) -> str:
    """Of the elected request; "" for nobody."""
    return "" if grant is None else grant.submission.request.request_id
