"""One submission in the queue, with what the order of the queue is made from."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inference.admission.concurrency_control import Demand
from inference.admission.estimator import WorkReservation
from inference.admission.token_budget import needed_tokens
from inference.domain.admission import Submission
from inference.domain.admission_events import Admitted

TokenArray = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Admission:
    """How a submission got its lane: what is told of it, and what is weighed when it has ended."""

    event: Admitted
    demand: Demand


class Waiter:
    """Compared by identity.

    `num_needed_tokens` is what it reserves, `work` what the prediction counts for it, `order` its
    place among all that ever came. `tokens` is its prompt as int32. `has_waited` is False where it
    could have started at once and only waits for the engine's next step. `admission` is there from
    the moment when it has its lane.
    """

    __slots__ = (
        "_token_bytes",
        "admission",
        "has_waited",
        "num_needed_tokens",
        "order",
        "predicted_wait_s",
        "submission",
        "tokens",
        "work",
    )

    def __init__(self, submission: Submission) -> None:
        request = submission.request
        ids = array("i", request.prompt_token_ids)
        self.submission = submission
        self.num_needed_tokens = needed_tokens(num_prompt_tokens=len(ids), max_tokens=request.max_tokens)
        self.tokens: TokenArray = np.frombuffer(ids, dtype=np.int32)
        self._token_bytes = self.tokens.astype(">i4").tobytes()
        self.order = 0
        self.has_waited = False
        self.predicted_wait_s: float | None = None
        self.work: WorkReservation | None = None
        self.admission: Admission | None = None

    @property
    def namespace(self) -> str:
        return self.submission.request.cache_namespace

    @property
    def user_id(self) -> int:
        return self.submission.request.user_id

    @property
    def sort_key(self) -> tuple[str, bytes, int]:
        """Token ids big-endian, since bytes then compare as the ids do, behind the namespace, so that
        only those stand side by side that can share cells."""
        return self.namespace, self._token_bytes, self.order

    def __repr__(self) -> str:
        return f"<Waiter {self.submission.request.request_id}, {self.num_needed_tokens} tokens>"
