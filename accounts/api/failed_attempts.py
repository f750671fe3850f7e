"""Slows down whoever tries out keys.

Guessing 256 bits is hopeless, but each try asks the database. After `max_attempts` failures from one
network within `window_s` the rest of the window is refused without a look; keys that were good a while ago
go on from there all the same, so that nobody who shares an address with a guesser is shut out. An IPv6
customer has a /64 to himself, so that is what counts as one network. Kept in each process for itself.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

from cachetools import TTLCache

MAX_ATTEMPTS = 30
WINDOW_S = 60.0
MAX_NETWORKS = 4_096
GOOD_KEY_TTL_S = 600.0
MAX_GOOD_KEYS = 1_024
_IPV6_HOST_BITS = 64


@dataclass(frozen=True, slots=True)
class FailedAttemptsStatistics:
    """A picture of it. `num_refused` counts attempts that were not looked at."""

    num_networks: int
    max_networks: int
    num_good_keys: int
    num_failed: int
    num_refused: int


@dataclass(slots=True)
class _Window:
    began_ts: float
    num_failed: int = 0


class FailedAttempts:
    """Failures by network. Safe for any number of threads."""

    def __init__(
        self,
        *,
        max_attempts: int = MAX_ATTEMPTS,
        window_s: float = WINDOW_S,
        max_networks: int = MAX_NETWORKS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_attempts = max_attempts
        self._window_s = window_s
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._windows: TTLCache[str, _Window] = TTLCache(max_networks, ttl=window_s, timer=monotonic)
        self._good: TTLCache[str, None] = TTLCache(MAX_GOOD_KEYS, ttl=GOOD_KEY_TTL_S, timer=monotonic)
        self._num_failed = 0
        self._num_refused = 0

    def __repr__(self) -> str:
        s = self.statistics()
        return (
            f"<FailedAttempts from {s.num_networks}/{s.max_networks} networks, "
            f"{s.num_failed} failed, {s.num_refused} refused>"
        )

    def wait_s(self, address: str, digest: str | None) -> int | None:
        """Whole seconds after which this network may try again; None if it may now, or if the key with this
        digest was good lately."""
        with self._lock:
            window = self._windows.get(_network(address))
            if window is None or window.num_failed < self._max_attempts:
                return None
            if digest is not None and digest in self._good:
                return None
            self._num_refused += 1
            return max(1, math.ceil(window.began_ts + self._window_s - self._monotonic()))

    def note_failed(self, address: str) -> None:
        with self._lock:
            self._num_failed += 1
            network = _network(address)
            window = self._windows.get(network)
            if window is None:
                window = self._windows[network] = _Window(self._monotonic())
            window.num_failed += 1

    def note_good(self, digest: str) -> None:
        with self._lock:
            self._good[digest] = None

    def forget_all(self) -> None:
        with self._lock:
            self._windows.clear()
            self._good.clear()

    def statistics(self) -> FailedAttemptsStatistics:
        with self._lock:
            return FailedAttemptsStatistics(
                num_networks=len(self._windows),
                max_networks=int(self._windows.maxsize),
                num_good_keys=len(self._good),
                num_failed=self._num_failed,
                num_refused=self._num_refused,
            )

    def check_integrity(self) -> None:
        """AssertionError if it holds more than it may."""
        s = self.statistics()
        if s.num_networks > s.max_networks or s.num_good_keys > MAX_GOOD_KEYS:
            raise AssertionError(f"too much is remembered: {s}")


def _network(address: str) -> str:
    try:
        parsed = ip_address(address)
    except ValueError:
        return "unknown"
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return f"{int(parsed) >> _IPV6_HOST_BITS:x}/64"
