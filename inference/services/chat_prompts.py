"""The prompt of a conversation with all that is in it: text, pictures and sounds."""

from __future__ import annotations

from collections.abc import Sequence

from inference.domain.chat_prompt import ChatPrompt
from inference.domain.conversation import Conversation
from inference.prompting.prompt import PromptTimes
from inference.services.media_desk import MediaFile, MediaItem
from inference.services.model_catalog import ServedModel


def chat_prompt(
    model: ServedModel,
    conversation: Conversation,
    files: Sequence[MediaFile],
    times: PromptTimes | None = None,
    *,
    must_fit: bool = True,
) -> tuple[ChatPrompt, tuple[MediaItem, ...]]:
    """`files` are those of the conversation's parts; what they are in the prompt comes with it. Takes
    milliseconds to seconds: not for the event loop. Errors as PromptBuilder.chat."""
    items = model.media.lay_out(files)
    media = {item.file.part.mark: item.pieces for item in items}
    return model.prompts.chat(conversation, times, media=media, must_fit=must_fit), items
