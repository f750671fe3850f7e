"""What there is to count of a webhook, at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hooks.webhooks.breaker import BreakerStatistics
from hooks.webhooks.failures import FailureReason


@dataclass(frozen=True, slots=True)
class WebhookStatistics:
    """`num_in_flight` calls are out, `num_waiting` wait for a place. `num_answers` and `failures` are calls
    that ended since the process began, or since the webhook was changed; `num_retries` further tries. Calls
    that their own request gave up are `num_given_up`. `elapsed_s` is the time that all of them took."""

    webhook_id: int
    name: str
    max_in_flight: int
    num_in_flight: int
    num_waiting: int
    num_answers: int
    num_given_up: int
    num_retries: int
    failures: Mapping[FailureReason, int]
    elapsed_s: float
    breaker: BreakerStatistics
