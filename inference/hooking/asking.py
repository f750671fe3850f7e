"""One request's policies being asked: what they refuse it with, as the API's errors, and how long it took."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hooks.contracts.actions import MAX_DENY_STATUS, MIN_DENY_STATUS
from hooks.contracts.decisions import HookDenied, HookFailed
from hooks.contracts.exchange import HookExchange
from hooks.contracts.points import HookPoint
from inference.domain.errors import PolicyDenied, ServiceUnavailable
from inference.domain.phases import PoliciesAsked
from inference.hooking.effective import ViewRefused
from inference.hooking.parameters import ParameterRefused
from inference.hooking.readable_text import readable

NotePhase = Callable[[PoliciesAsked], None]

_log = logging.getLogger(__name__)

# What HookFailed says, for failures that only show where what policies made is used.
UNUSABLE = "A policy of this service could not be evaluated."


@contextmanager
def told_as_errors() -> Iterator[None]:
    """What hooks refuse in here is refused to the client: PolicyDenied and ServiceUnavailable."""
    try:
        yield
    except HookDenied as denied:
        status = denied.status if MIN_DENY_STATUS <= denied.status <= MAX_DENY_STATUS else 403
        message, code = readable(denied.message), readable(denied.code)
        raise PolicyDenied(message, status=status, code=code or None) from None
    except HookFailed as failed:
        raise ServiceUnavailable(str(failed)) from None


class PolicyAsking:
    """Whoever asks the `exchange` does it within `at`. `note` is told of each time."""

    def __init__(self, exchange: HookExchange, *, request_id: str, note: NotePhase) -> None:
        self._exchange = exchange
        self._request_id = request_id
        self._note = note

    @contextmanager
    def at(
        self, point: HookPoint, *, choice: int | None = None, is_one_of_many: bool = False
    ) -> Iterator[None]:
        """Ask at `point`, and use there what comes out. Raises PolicyDenied and ServiceUnavailable.
        `is_one_of_many`: what is asked again and again is told of only where something came of it."""
        began_ts, num_before = time.monotonic(), len(self._exchange.decisions)
        try:
            with told_as_errors():
                yield
        except (ParameterRefused, ViewRefused) as fault:
            # Names and ranges of parameters: nothing that anybody wrote.
            _log.warning("request %s: what policies made of it cannot be used: %s", self._request_id, fault)
            raise ServiceUnavailable(UNUSABLE) from None
        finally:
            num_decisions = len(self._exchange.decisions) - num_before
            if num_decisions or not is_one_of_many:
                elapsed_s = time.monotonic() - began_ts
                self._note(PoliciesAsked(self._request_id, elapsed_s, point.value, num_decisions, choice))
