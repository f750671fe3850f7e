"""What the engine holds of a submission while it runs: a permit, a reservation, and the duty to release."""

from __future__ import annotations

from typing import Protocol

from inference.admission.limiter import Permit
from inference.admission.token_budget import Reservation
from inference.admission.waiter import Waiter
from inference.domain.admission import Submission


class GrantOffice(Protocol):
    """Where grants come from and go back to."""

    def release(self, grant: LaneGrant, num_output_tokens: int) -> None: ...


class LaneGrant:
    """A domain Grant. Engine thread only."""

    __slots__ = ("_office", "permit", "reservation", "waiter")

    def __init__(self, office: GrantOffice, waiter: Waiter, permit: Permit, reservation: Reservation) -> None:
        self._office = office
        self.waiter = waiter
        self.permit = permit
        self.reservation = reservation

    @property
    def submission(self) -> Submission:
        return self.waiter.submission

    def release(self, *, num_output_tokens: int = 0) -> None:
        self._office.release(self, num_output_tokens)

    def __repr__(self) -> str:
        return f"<LaneGrant of {self.waiter!r}, {self.permit!r}, {self.reservation!r}>"
