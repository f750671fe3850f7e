"""What an engine must offer to the services: in-process llama.cpp now, a remote engine later."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from inference.domain.events import Event
from inference.domain.requests import GenerationRequest


class GenerationHandle(Protocol):
    """One submitted request. Its owner iterates it once and always ends with `cancel()`.

    `cancel()` may be called at any time and any number of times, from the event loop: before the
    ending it withdraws the request from the queue or frees its lane within one engine step; after
    the ending it does nothing.
    """

    def __aiter__(self) -> AsyncIterator[Event]: ...

    def cancel(self) -> None: ...


class GenerationBackend(Protocol):
    """Takes requests and generates. `submit` never waits: it returns a handle or raises.

    Raises ServerOverloaded (the queue is full), ContextLengthExceeded (can never fit) or
    ServiceUnavailable (loading, draining, dead).
    """

    def submit(self, request: GenerationRequest) -> GenerationHandle: ...
