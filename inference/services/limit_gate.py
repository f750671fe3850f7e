"""One request's way through the limits of its caller: looked at, taken once, given back once.

Accounts decide; this puts it into the words of the API. The gate is made when authentication has
passed and lives as long as the request.
"""

from __future__ import annotations

from math import ceil

from accounts.contracts import Principal
from accounts.limits.contracts import (
    Allowance,
    LimitDesk,
    LimitExceeded,
    LimitReservation,
    LimitsUnavailable,
    Refusal,
    Standing,
)
from inference.domain.errors import (
    InsufficientQuota,
    PermissionDenied,
    RateLimitExceeded,
    ServiceUnavailable,
    SkippyError,
)
from inference.domain.events import Usage
from inference.domain.rejection_reason import RejectionReason

# An answer seldom is as long as it may be: who asks for thousands of tokens is not made to wait for them.
MAX_ESTIMATED_TOKENS = 512
MAX_RETRY_AFTER_S = 300


class LimitGate:
    """Event loop only; one request. `allowance` is None until `look` has been there."""

    def __init__(self, desk: LimitDesk, principal: Principal) -> None:
        self.allowance: Allowance | None = None
        self._desk = desk
        self._principal = principal
        self._standing: Standing | None = None
        self._reservation: LimitReservation | None = None
        self._is_closed = False

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "taken" if self._reservation is not None else "open"
        return f"<LimitGate of key {self._principal.key_id}, {state}>"

    async def look(self) -> None:
        """What is left, before anything is asked for. Raises ServiceUnavailable."""
        try:
            self._standing = await self._desk.standing(self._principal)
        except LimitsUnavailable:
            raise _unavailable() from None
        self.allowance = self._standing.allowance

    def check_address(self, address: str | None) -> None:
        """Raises PermissionDenied where the key may not be used from there."""
        if not self._principal.limits.allows_address(address):
            raise PermissionDenied(
                "This API key may not be used from your network.", reason=RejectionReason.NETWORK
            )

    async def check_spent(self) -> None:
        """Raises RateLimitExceeded or InsufficientQuota where not even the smallest request may begin,
        before the prompt costs anything."""
        if self._standing is None or self._standing.refusal is None:
            return
        await self.look()  # the body may have taken its time
        if self._standing.refusal is not None:
            raise refused(self._standing.refusal)

    async def reserve(self, *, num_prompt_tokens: int, max_tokens: int, num_answers: int = 1) -> None:
        """Take what the request is estimated to use: its prompts once, and each of its answers, of up to
        `max_tokens`. Raises RateLimitExceeded, InsufficientQuota or
        ServiceUnavailable."""
        estimate = num_prompt_tokens + num_answers * min(max_tokens, MAX_ESTIMATED_TOKENS)
        try:
            reservation = await self._desk.reserve(self._principal, num_tokens=estimate)
        except LimitExceeded as error:
            self.allowance = error.allowance
            raise refused(error.refusal) from None
        except LimitsUnavailable:
            raise _unavailable() from None
        if self._is_closed:
            reservation.refund()
            return
        self._reservation = reservation
        self.allowance = reservation.allowance

    def close(self, usage: Usage | None) -> None:
        """The request has ended: with what it used, or None where it never began."""
        self._is_closed = True
        if self._reservation is None:
            return
        if usage is None:
            self._reservation.refund()
        else:
            self._reservation.settle(usage.total_tokens)


def refused(refusal: Refusal) -> SkippyError:
    """The API's error for a limit that does not let a request begin."""
    what = refusal.kind.value.replace("_", " ")
    message = (
        f"{{}} for {what} of this {refusal.scope.value}: limit {refusal.limit}, used {refusal.used}, "
        f"requested {refusal.needed}."
    )
    retry_after_s = min(MAX_RETRY_AFTER_S, max(1, ceil(refusal.wait_s)))
    reason = RejectionReason(refusal.kind.value)
    if refusal.kind.is_budget:
        return InsufficientQuota(
            message.format("Quota exceeded"), retry_after_s=retry_after_s, should_retry=False, reason=reason
        )
    return RateLimitExceeded(
        message.format("Rate limit reached") + f" Please try again in {retry_after_s}s.",
        retry_after_s=retry_after_s,
        should_retry=refusal.limit > 0,
        reason=reason,
    )


def _unavailable() -> ServiceUnavailable:
    return ServiceUnavailable("Limits cannot be checked right now. Please retry shortly.")
