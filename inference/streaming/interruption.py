"""How somebody else ends a request: an operator, or a limit that another part of the service keeps.

The request's own task may be waiting for anything just then: a thread, a lane, the next token, its client.
So it is cancelled where it stands, everything on its way back is released as if its client had left, and
what comes out is the error that its client is told.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any

from inference.domain.errors import SkippyError


class Interruption:
    """The asynchronous context of the one task that serves a request. Event loop only.

    `interrupt` has an effect once: the context ends with its error, or refuses to be entered, and does
    nothing once it was left. Where the task was cancelled for another reason as well (its client left, the
    server stops), that one has precedence, and it stays cancelled.
    """

    __slots__ = ("_error", "_is_over", "_num_cancellations", "_owner")

    def __init__(self) -> None:
        self._owner: asyncio.Task[Any] | None = None
        self._num_cancellations = 0
        self._error: SkippyError | None = None
        self._is_over = False

    def interrupt(self, error: SkippyError) -> bool:
        """End what is inside, or will be, with `error`; False where it was left or interrupted before."""
        if self._is_over or self._error is not None:
            return False
        self._error = error
        if self._owner is not None:
            self._owner.cancel()
        return True

    async def __aenter__(self) -> Interruption:
        if self._error is not None:
            raise self._error
        self._owner = asyncio.current_task()
        assert self._owner is not None
        self._num_cancellations = self._owner.cancelling()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        owner, self._owner, self._is_over = self._owner, None, True
        if self._error is None or owner is None:
            return
        is_ours = owner.uncancel() <= self._num_cancellations
        # What was ending by itself when it was interrupted ends by its own error.
        if is_ours and kind is asyncio.CancelledError:
            raise self._error from None

    def __repr__(self) -> str:
        state = "interrupted" if self._error else "over" if self._is_over else "open"
        return f"<Interruption {state}>"
