"""Answers kept in memory, with the rules of the real keeping."""

from __future__ import annotations

from inference.domain.errors import Conflict, InvalidRequest, NotFound, ServiceUnavailable
from inference.domain.kept_answers import KeptResponse, KeptText, NamedRequest, SentAnswer


class MemoryKeeping:
    """Implements NamedRequests, KeptTexts and KeptResponses of domain.kept_answers."""

    def __init__(self) -> None:
        self.running: dict[tuple[int, bytes], NamedRequest] = {}
        self.finished: dict[tuple[int, bytes], tuple[NamedRequest, SentAnswer | None]] = {}
        self.texts: list[KeptText] = []
        self.is_away = False

    async def begin(self, request: NamedRequest) -> SentAnswer | None:
        self._check()
        name = (request.key_id, request.name_digest)
        first, answer = self.finished.get(name, (self.running.get(name), None))
        if first is None:
            self.running[name] = request
            return None
        if first.body_digest != request.body_digest:
            raise InvalidRequest("another body")
        if name in self.running:
            raise Conflict("still running", retry_after_s=1)
        if answer is None:
            raise Conflict(f"request {first.request_id} was answered", should_retry=False)
        return answer

    async def finish(self, request: NamedRequest, answer: SentAnswer | None) -> None:
        self._check()
        name = (request.key_id, request.name_digest)
        self.finished[name] = (self.running.pop(name), answer)

    async def abandon(self, request: NamedRequest) -> None:
        self._check()
        del self.running[request.key_id, request.name_digest]

    async def keep(self, text: KeptText) -> None:
        self._check()
        self.texts.append(text)

    async def conversation(self, *, response_id: str, key_id: int) -> list[KeptResponse]:
        kept = [await self.response(response_id=response_id, key_id=key_id)]
        while kept[0].stored.previous_id:
            kept.insert(0, await self.response(response_id=kept[0].stored.previous_id, key_id=key_id))
        return kept

    async def response(self, *, response_id: str, key_id: int) -> KeptResponse:
        text = self._text(response_id, key_id)
        assert text.stored is not None
        return KeptResponse(text.stored, text.request)

    async def forget(self, *, response_id: str, key_id: int) -> None:
        self.texts.remove(self._text(response_id, key_id))

    def _text(self, response_id: str, key_id: int) -> KeptText:
        self._check()
        for text in self.texts:
            if text.stored is not None and (text.stored.id, text.key_id) == (response_id, key_id):
                return text
        raise NotFound(f"Response with id '{response_id}' not found.")

    def _check(self) -> None:
        if self.is_away:
            raise ServiceUnavailable("away")
