"""One request's exchange with the policies, for those who serve it.

Doors ask it before the request costs anything, the story of its generation takes from it what the engine is
to tell, and each choice has its part of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from hooks.contracts.exchange import HookExchange
from hooks.contracts.points import HookPoint
from hooks.contracts.view import RequestView
from inference.domain.signals import SignalRequest
from inference.hooking.asking import NotePhase, PolicyAsking
from inference.hooking.choice_hooks import ChoiceHooks, InterruptibleText, Tokenize
from inference.hooking.effective import effective_request
from inference.hooking.output_gate import OutputGate
from inference.hooking.signals import signal_request
from inference.hooking.views import num_view_bytes, request_view
from inference.openai.protocol import OutputRequest
from inference.parsing.released_tokens import ReleasedTokens

R = TypeVar("R", bound=OutputRequest)


class OffLoop(Protocol):
    """Runtime.off_loop: work that reads so many bytes, where it blocks nobody."""

    def __call__(self, work: Callable[[], RequestView], *, num_bytes: int) -> Awaitable[RequestView]: ...


class RequestHooks:
    """Event loop only. Whoever made it sees to it that the `exchange` is concluded."""

    def __init__(self, exchange: HookExchange, *, endpoint: str, request_id: str, note: NotePhase) -> None:
        self.exchange = exchange
        self._endpoint = endpoint
        self._asking = PolicyAsking(exchange, request_id=request_id, note=note)

    async def before(self, request: R, off_loop: OffLoop, *, token_texts: tuple[str, ...] = ()) -> R:
        """The request as policies leave it. `token_texts` is what prompts say that came as token ids. Raises
        PolicyDenied, and ServiceUnavailable where one that must be asked could not be."""
        view = await off_loop(
            lambda: request_view(request, endpoint=self._endpoint, token_texts=token_texts),
            num_bytes=num_view_bytes(request),
        )
        with self._asking.at(HookPoint.BEFORE):
            return effective_request(request, view, await self.exchange.before(view))

    @property
    def signal_request(self) -> SignalRequest | None:
        """What the engine is to tell of each choice."""
        return signal_request(self.exchange)

    def choice(
        self, index: int, *, text: InterruptibleText, is_constrained: bool, tokenize: Tokenize
    ) -> ChoiceHooks:
        """What of it goes with the choice `index`."""
        return ChoiceHooks(
            self.exchange,
            self._asking,
            index=index,
            text=text,
            is_constrained=is_constrained,
            tokenize=tokenize,
        )

    def output_gate(self, index: int, *, is_stream: bool, tokens: ReleasedTokens | None) -> OutputGate | None:
        """The way out of the choice `index`; None where nobody looks at what is put out. `tokens` are there
        where tokens are asked for."""
        if not self.exchange.wants(HookPoint.OUTPUT):
            return None
        return OutputGate(self.exchange, self._asking, choice=index, is_stream=is_stream, tokens=tokens)
