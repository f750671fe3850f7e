"""One webhook: its settings, its connections, its circuit breaker, and who may call it now.

Everything that the other side can do wrong ends in one WebhookFailed of the call that met it. A call waits
for a place, and takes its tries, under one deadline.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from urllib.parse import quote

import msgspec

from hooks.contracts.webhook_settings import WebhookSettings
from hooks.contracts.webhooks import WebhookAnswer, WebhookCall, WebhookFailed
from hooks.outbound.signatures import SIGNATURE, signature
from hooks.webhooks.answer import answer_read
from hooks.webhooks.breaker import BreakerRules, CircuitBreaker, CircuitOpen
from hooks.webhooks.call_body import call_body, num_chars_about
from hooks.webhooks.clock import Clock
from hooks.webhooks.failures import CallFailure, FailureReason, KeptConnectionEnded
from hooks.webhooks.http_client import HttpClient
from hooks.webhooks.statistics import WebhookStatistics

_log = logging.getLogger(__name__)

CALL_ID = "x-skippy-call-id"
POLICY = "x-skippy-policy"
REQUEST_ID = "x-request-id"
FIRST_PAUSE_S = 0.05
# Larger bodies are made, and larger answers read, where the event loop does not wait for it. An answer of the
# same size takes longer, since its patterns are compiled.
MAX_CHARS_ON_LOOP, MAX_ANSWER_BYTES_ON_LOOP = 32 * 1024, 2 * 1024
# A call that is given up after this share of its time, and was out for half of it, was too slow: whoever asks
# may end it a moment before its own deadline does, and that must count, too.
_NEARLY, _OUT = 0.9, 0.5


class Webhook:
    """Event loop only. `retire` lets the calls that are out end."""

    def __init__(
        self, settings: WebhookSettings, client: HttpClient, *, rules: BreakerRules, clock: Clock
    ) -> None:
        self.settings = settings
        self._client = client
        self._clock = clock
        self._breaker = CircuitBreaker(rules, clock)
        self._places = asyncio.Semaphore(settings.max_in_flight)
        self._num_in_flight = self._num_waiting = 0
        self._num_answers = self._num_given_up = self._num_retries = 0
        self._failures: Counter[FailureReason] = Counter()
        self._elapsed_s = 0.0
        self._is_retired = False

    async def ask(self, call: WebhookCall, *, timeout_s: float) -> WebhookAnswer:
        """Raises WebhookFailed."""
        began_ts = self._clock.monotonic()
        limit_s = min(timeout_s, self.settings.deadline_s)
        place: _Place | None = None
        try:
            if self._breaker.would_refuse:
                raise CallFailure(FailureReason.CIRCUIT_OPEN)
            async with asyncio.timeout(limit_s):
                place = await self._wait_for_place()
                answer = await self._ask(call, began_ts=began_ts, limit_s=limit_s)
        except CallFailure as failure:
            raise self._failed(failure.reason) from None
        except TimeoutError:
            raise self._failed(FailureReason.NO_PLACE if place is None else FailureReason.TIMED_OUT) from None
        except asyncio.CancelledError:
            self._num_given_up += 1
            raise
        except Exception as problem:
            # Of the client library, or ours. The class only: what it says may hold what was sent.
            _log.warning("a call to webhook %d failed: %s", self.settings.webhook_id, type(problem).__name__)
            raise self._failed(FailureReason.LOST) from None
        finally:
            self._elapsed_s += self._clock.monotonic() - began_ts
            if place is not None:
                await place.release()
        self._num_answers += 1
        return answer

    def _failed(self, reason: FailureReason) -> WebhookFailed:
        self._failures[reason] += 1
        return WebhookFailed(reason.value)

    async def _wait_for_place(self) -> _Place:
        self._num_waiting += 1
        try:
            await self._places.acquire()
        finally:
            self._num_waiting -= 1
        self._num_in_flight += 1
        return _Place(self)

    async def _ask(self, call: WebhookCall, *, began_ts: float, limit_s: float) -> WebhookAnswer:
        body, headers = await self._made(call)
        try:
            breaker_pass = self._breaker.enter()
        except CircuitOpen:
            raise CallFailure(FailureReason.CIRCUIT_OPEN) from None
        sent_ts = self._clock.monotonic()
        with breaker_pass:
            try:
                answer = await self._try(body, headers)
            except CallFailure as failure:
                if failure.is_down:
                    breaker_pass.fail()
                elif failure.reason is not FailureReason.NOT_ALLOWED:
                    breaker_pass.succeed()
                raise
            except asyncio.CancelledError:
                now_ts = self._clock.monotonic()
                if now_ts - began_ts >= limit_s * _NEARLY and now_ts - sent_ts >= limit_s * _OUT:
                    breaker_pass.fail()
                raise
            breaker_pass.succeed()
        allowed = self.settings.rights.actions
        if len(answer) <= MAX_ANSWER_BYTES_ON_LOOP:
            return answer_read(answer, allowed)
        return await asyncio.to_thread(answer_read, answer, allowed)

    async def _made(self, call: WebhookCall) -> tuple[bytes, dict[str, str]]:
        """The body of a call, and its headers: the same for each of its tries."""
        num_chars = num_chars_about(call, self.settings.rights.parts)
        if num_chars > self.settings.max_body_bytes:
            raise CallFailure(FailureReason.UNSENDABLE)
        call_id, unix_s = uuid.uuid4().hex, int(self._clock.unix_time())
        try:
            if num_chars <= MAX_CHARS_ON_LOOP:
                body, signed = self._signed(call, call_id, unix_s)
            else:
                body, signed = await asyncio.to_thread(self._signed, call, call_id, unix_s)
        except (ValueError, OverflowError, TypeError):
            # Half of a surrogate pair, or a number that no JSON reader takes.
            raise CallFailure(FailureReason.UNSENDABLE) from None
        if len(body) > self.settings.max_body_bytes:
            raise CallFailure(FailureReason.UNSENDABLE)
        return body, {
            "Content-Type": "application/json",
            "User-Agent": "Skippy",
            SIGNATURE: signed,
            CALL_ID: call_id,
            POLICY: quote(call.policy, safe=""),
            REQUEST_ID: quote(call.request_id, safe=""),
        }

    def _signed(self, call: WebhookCall, call_id: str, unix_s: int) -> tuple[bytes, str]:
        body = msgspec.json.encode(call_body(call, self.settings.rights, call_id=call_id, unix_s=unix_s))
        return body, signature(body, secret=self.settings.secret, unix_s=unix_s)

    async def _try(self, body: bytes, headers: Mapping[str, str]) -> bytes:
        """Until there is an answer, or a failure that trying again does not mend."""
        num_tries, has_reconnected = 0, False
        while True:
            try:
                return await self._client.post(body, headers, max_answer_bytes=self.settings.max_answer_bytes)
            except KeptConnectionEnded:
                if has_reconnected:
                    raise
                has_reconnected = True
            except CallFailure as failure:
                if not failure.can_retry or num_tries >= self.settings.max_retries:
                    raise
                await asyncio.sleep(FIRST_PAUSE_S * 2**num_tries)
                num_tries += 1
                self._num_retries += 1

    async def retire(self) -> None:
        """No call begins any more; connections are closed once the last one that is out has ended."""
        self._is_retired = True
        await self._close_if_over()

    async def _release(self) -> None:
        self._num_in_flight -= 1
        self._places.release()
        await self._close_if_over()

    async def _close_if_over(self) -> None:
        if self._is_retired and not self._num_in_flight and not self._num_waiting:
            await self._client.close()

    def statistics(self) -> WebhookStatistics:
        return WebhookStatistics(
            webhook_id=self.settings.webhook_id,
            name=self.settings.name,
            max_in_flight=self.settings.max_in_flight,
            num_in_flight=self._num_in_flight,
            num_waiting=self._num_waiting,
            num_answers=self._num_answers,
            num_given_up=self._num_given_up,
            num_retries=self._num_retries,
            failures=MappingProxyType(dict(self._failures)),
            elapsed_s=self._elapsed_s,
            breaker=self._breaker.statistics(),
        )

    def check_integrity(self) -> None:
        assert 0 <= self._num_in_flight <= self.settings.max_in_flight
        assert self._num_waiting >= 0
        self._breaker.check_integrity()

    def __repr__(self) -> str:
        return (
            f"<Webhook {self.settings.name!r}: {self._num_in_flight} of {self.settings.max_in_flight} calls, "
            f"{self._num_waiting} wait, circuit {self._breaker.state.value}>"
        )


class _Place:
    """One call that is out. Gives its place back once."""

    def __init__(self, webhook: Webhook) -> None:
        self._webhook: Webhook | None = webhook

    async def release(self) -> None:
        webhook, self._webhook = self._webhook, None
        if webhook is not None:
            await webhook._release()
