"""How an answer of several choices gets to its client: interleaved as they come, or all at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from inference.api.answer_keeper import AnswerKeeper
from inference.api.http import HttpResponder
from inference.api.question import ChoiceRendering, FrameWriter, part_frames
from inference.domain.generation_result import GenerationResult
from inference.domain.logprobs import ScoredToken
from inference.domain.message_deltas import Answer, AnswerPart, MessageBuilder, MessageDelta
from inference.openai.protocol import OutputRequest
from inference.services.answer_group import AnswerGroup
from inference.services.best_answers import best_answers
from inference.streaming.event_channel import EventChannel


class ChoiceStream:
    """Sends the frames of all choices as they come, one send at a time; a ChoiceReader. While the client
    is behind, all choices wait here, and are held."""

    def __init__(
        self, renderings: Sequence[ChoiceRendering], respond: HttpResponder, keeper: AnswerKeeper
    ) -> None:
        self._renderings = renderings
        self._respond = respond
        self._keeper = keeper
        self._turn = asyncio.Lock()
        self._num_running = len(renderings)
        self.last_frame = b""
        """The end of the choice that ended last. It is not sent here: who has it has all."""

    async def take(self, index: int, part: AnswerPart) -> None:
        frames = part_frames(self._renderings[index], part)
        await self._send(frames, index, part.deltas)

    async def end(self, index: int, result: GenerationResult) -> None:
        frame = self._renderings[index].finish(result)
        self._num_running -= 1
        if self._num_running:
            await self._send(frame, index)
        else:
            self.last_frame = frame

    async def begin(self, group: AnswerGroup) -> None:
        """Say of each choice that it is coming."""
        usage = group.usage_so_far
        await self._send(b"".join([rendering.begin(usage) for rendering in self._renderings]), 0)

    async def _send(self, frames: bytes, index: int, deltas: Sequence[MessageDelta] = ()) -> None:
        async with self._turn:
            self._keeper.add(frames, *deltas, choice=index)
            if frames:
                await self._respond.frame(frames)


class WholeChoices:
    """Gathers all choices; a ChoiceReader."""

    def __init__(self, num_choices: int) -> None:
        self._deltas: list[list[MessageDelta]] = [[] for _ in range(num_choices)]
        self._tokens: list[list[ScoredToken]] = [[] for _ in range(num_choices)]
        # The first tokens of a choice may be its prompt's, and say nothing of how good it is.
        self._num_echoed = [0] * num_choices
        self._results: dict[int, GenerationResult] = {}
        self.texts: tuple[str, ...] = ()
        """The contents of those that are sent, once there is a body."""

    async def take(self, index: int, part: AnswerPart) -> None:
        self._deltas[index] += part.deltas
        self._tokens[index] += part.tokens
        if part.is_prompt:
            self._num_echoed[index] += len(part.tokens)

    async def end(self, index: int, result: GenerationResult) -> None:
        self._results[index] = result

    def body(
        self,
        rendering: ChoiceRendering,
        request: OutputRequest,
        result: GenerationResult,
        keeper: AnswerKeeper,
    ) -> bytes:
        """Of those that are sent, in their order; `result` is that of the whole request."""
        generated = [tokens[num:] for tokens, num in zip(self._tokens, self._num_echoed, strict=True)]
        chosen = best_answers(generated, num_wanted=request.num_choices, num_prompts=request.num_prompts)
        choices, texts = [], []
        for index, place in enumerate(chosen):
            deltas = self._deltas[place]
            answer = Answer(MessageBuilder(deltas).message(), tuple(self._tokens[place]), tuple(deltas))
            choices.append(rendering.for_choice(index).choice(answer, self._results[place]))
            texts.append(answer.message.content or "")
            keeper.add(b"", *deltas, choice=index)
        self.texts = tuple(texts)
        return rendering.body(choices, result)


async def stream_choices(
    rendering: ChoiceRendering,
    group: AnswerGroup,
    *,
    respond: HttpResponder,
    channel: EventChannel,
    keeper: AnswerKeeper,
) -> bytes:
    """Send everything from the first chunk on; returns the last chunks, which are still to be sent."""
    renderings = [rendering.for_choice(index) for index in range(group.num_choices)]
    reader = ChoiceStream(renderings, respond, keeper)
    await reader.begin(group)
    if not keeper.is_keeping:
        group.write_at_once([FrameWriter(one, channel) for one in renderings])
    await group.read(reader)
    return reader.last_frame + rendering.totals(group.result)
