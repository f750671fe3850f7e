"""What an engine must offer to the services: in-process llama.cpp now, a remote engine later."""

from __future__ import annotations

from collections.abc import AsyncIterator
from enum import Enum
from typing import Protocol

from inference.domain.events import Event
from inference.domain.requests import GenerationRequest


class HoldReason(Enum):
    """Why a sequence stands still: its reader is behind, or a hook thinks about how it goes on."""

    READER = "reader"
    HOOK = "hook"


class GenerationHandle(Protocol):
    """One submitted request. Its owner iterates it once and always ends with `cancel()`.

    All methods may be called at any time and any number of times, from the event loop; after the
    ending they do nothing. `cancel()` withdraws the request from the queue or frees its lane within
    one engine step.

    `hold()` makes its sequence stand still from the next step on, for as long as there is at least
    one reason to: no prefill, no decode, lane and cells kept, all others go on. What the step that is
    running draws still comes. A request that waits in the queue keeps its turn; it then starts (and
    says so) and stands still. `resume()` takes one reason away. The engine knows no time limit for
    this: whoever holds sees to it that it ends.
    """

    def __aiter__(self) -> AsyncIterator[Event]: ...

    def cancel(self) -> None: ...

    def hold(self, reason: HoldReason) -> None: ...

    def resume(self, reason: HoldReason) -> None: ...


class GenerationBackend(Protocol):
    """Takes requests and generates. `submit` never waits: it returns a handle or raises.

    Raises ServerOverloaded (the queue is full), ContextLengthExceeded (can never fit) or
    ServiceUnavailable (loading, draining, dead).
    """

    def submit(self, request: GenerationRequest) -> GenerationHandle: ...
