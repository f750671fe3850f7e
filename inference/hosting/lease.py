"""Holding on to a model while a request uses it.

Without that, a model could be unloaded between the moment at which a request found it and the moment at
which it has its lane, or under the answer that is being written.
"""

from __future__ import annotations

import asyncio

from inference.domain.clock import Clock
from inference.services.model_catalog import ServedModel


class ModelLease:
    """The right to use `model`, as it was set when the lease was given. `waited_s`: how long it took until
    it was loaded."""

    __slots__ = ("_book", "_is_released", "model", "waited_s")

    def __init__(self, book: LeaseBook, model: ServedModel, waited_s: float) -> None:
        self.model = model
        self.waited_s = waited_s
        self._book = book
        self._is_released = False

    def release(self) -> None:
        """Effective once; later calls do nothing."""
        if not self._is_released:
            self._is_released = True
            self._book._release(self)

    def __enter__(self) -> ModelLease:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.release()

    def __repr__(self) -> str:
        state = " (released)" if self._is_released else ""
        return f"<ModelLease of {self.model.settings.id}{state}>"


class LeaseBook:
    """The leases of one loaded model, for one event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held: set[ModelLease] = set()
        self._is_free = asyncio.Event()
        self._is_free.set()
        self._is_given_up = False
        self._last_used_ts = clock.monotonic()

    @property
    def num_held(self) -> int:
        return len(self._held)

    @property
    def last_used_ts(self) -> float:
        """When somebody last had a lease: now, while somebody has."""
        return self._clock.monotonic() if self._held else self._last_used_ts

    def acquire(self, model: ServedModel, *, waited_s: float = 0.0) -> ModelLease:
        lease = ModelLease(self, model, waited_s)
        self._held.add(lease)
        if not self._is_given_up:
            self._is_free.clear()
        return lease

    async def until_free(self, limit_s: float) -> bool:
        """Wait until nobody has a lease; False after `limit_s`, or once nobody is to wait any more."""
        try:
            async with asyncio.timeout(limit_s):
                await self._is_free.wait()
        except TimeoutError:
            pass
        return not self._held

    def give_up(self) -> None:
        """The service ends: nobody waits for leases that are still held."""
        self._is_given_up = True
        self._is_free.set()

    def _release(self, lease: ModelLease) -> None:
        self._held.remove(lease)
        self._last_used_ts = self._clock.monotonic()
        if not self._held:
            self._is_free.set()

    def check_integrity(self) -> None:
        """Raise AssertionError unless it says that it is free exactly while it is."""
        assert self._is_free.is_set() is (self._is_given_up or not self._held), repr(self)

    def __repr__(self) -> str:
        return f"<LeaseBook: {len(self._held)} held>"
