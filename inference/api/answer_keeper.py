"""What is kept of an answer beside its record: for its repetition, and where the key keeps text.

Most requests have neither a name nor such a key; then everything here does nothing.
"""

from __future__ import annotations

import logging

from accounts.contracts import Principal
from inference.domain.errors import ServiceUnavailable
from inference.domain.kept_answers import AnswerKeeping, KeptText, NamedRequest, SentAnswer, StoredResponse
from inference.domain.message_deltas import AssistantMessage, MessageBuilder, MessageDelta
from inference.streaming.lifecycle import RequestLifecycle

_log = logging.getLogger(__name__)


class AnswerKeeper:
    """One request's. `begin()` before anything is generated, then exactly one `end()`, whatever comes;
    `complete()` in between says that the answer is one."""

    def __init__(
        self,
        keeping: AnswerKeeping,
        *,
        named: NamedRequest | None,
        principal: Principal,
        keeps_text: bool,
        lifecycle: RequestLifecycle,
        body: bytes,
    ) -> None:
        """`keeps_text`: what is asked and answered is kept."""
        self._keeping = keeping
        self._named = named
        self._principal = principal
        self._lifecycle = lifecycle
        self._body = body
        self._keeps_text = keeps_text
        self._keeps_frames = keeps_text and named is not None
        self._stored: StoredResponse | None = None
        self._deltas: dict[int, list[MessageDelta]] = {0: []}
        self._frames: list[bytes] = []
        self._is_begun = False
        self._is_complete = False

    @property
    def is_keeping(self) -> bool:
        """Whether it must see each part of the answer."""
        return self._keeps_text

    async def begin(self) -> SentAnswer | None:
        """The answer that was sent to the first request of this name, None if this one is to be answered.
        Raises as NamedRequests.begin."""
        if self._named is None:
            return None
        earlier = await self._keeping.names.begin(self._named)
        self._is_begun = earlier is None
        return earlier

    def add(self, frame: bytes, *deltas: MessageDelta, choice: int = 0) -> None:
        """A part of the answer, as it is sent and as it was made."""
        if self._keeps_frames:
            self._frames.append(frame)
        if self._keeps_text:
            self._deltas.setdefault(choice, []).extend(deltas)

    def complete(self, stored: StoredResponse | None = None) -> None:
        """The request is recorded as completed, so it must not run again. `stored` is what is kept of it
        where it is a response that can be asked for again."""
        self._is_complete = True
        self._stored = stored

    async def end(self, content_type: str = "") -> None:
        """Keep what is to be kept of a complete answer, and give the name of another one back. A database
        that is away costs the kept answer, never the answer itself."""
        try:
            if self._is_complete and self._keeps_text:
                await self._keeping.texts.keep(self._text())
            if self._is_begun and self._named is not None:
                self._is_begun = False
                if self._is_complete:
                    await self._keeping.names.finish(self._named, self._answer(content_type))
                else:
                    await self._keeping.names.abandon(self._named)
        except ServiceUnavailable:
            _log.warning("request %s: its answer could not be kept", self._lifecycle.identity.request_id)
        finally:
            self._keeps_text = False

    def _answer(self, content_type: str) -> SentAnswer | None:
        return SentAnswer(200, content_type, b"".join(self._frames)) if self._keeps_frames else None

    def _text(self) -> KeptText:
        stored = self._stored
        choices = [MessageBuilder(self._deltas[choice]).message() for choice in sorted(self._deltas)]
        answer = "\n\n".join(map(_as_text, choices)) if stored is None else stored.object
        return KeptText(
            record_id=self._lifecycle.record_id,
            created_at=self._lifecycle.created_at,
            user_id=self._principal.user_id,
            key_id=self._principal.key_id,
            request=self._body.decode("utf-8", "replace"),
            answer=answer,
            stored=stored,
        )


def _as_text(message: AssistantMessage) -> str:
    """What was said, then a line for each call. The model's thinking is not kept."""
    calls = [f"{call.name}({call.arguments})" for call in message.tool_calls]
    return "\n".join([*([] if message.content is None else [message.content]), *calls])
