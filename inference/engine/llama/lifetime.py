"""A C object that several threads read and one of them frees."""

from __future__ import annotations

import threading
from collections.abc import Callable

from inference.domain.errors import ServiceUnavailable


class NativeLifetime:
    """Keeps a C object alive while anybody is inside `with lifetime:`.

    Tokenizing runs on a thread pool while the engine thread may be shutting down, and a freed
    vocabulary would end the process, not raise. Entering after `close()` raises ServiceUnavailable.
    """

    def __init__(self, free: Callable[[], None]) -> None:
        self._free = free
        self._changed = threading.Condition()
        self._num_users = 0
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def __enter__(self) -> None:
        with self._changed:
            if self._is_closed:
                raise ServiceUnavailable("The model has been unloaded.")
            self._num_users += 1

    def __exit__(self, *_exception: object) -> None:
        with self._changed:
            self._num_users -= 1
            if not self._num_users:
                self._changed.notify_all()

    def close(self) -> None:
        """Let nobody else in, wait for those who are, free the object. Once; later calls do nothing."""
        with self._changed:
            if self._is_closed:
                return
            self._is_closed = True
            self._changed.wait_for(lambda: self._num_users == 0)
        self._free()
