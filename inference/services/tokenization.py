"""Text to token ids and back for callers: the same prompts that generating starts from, and nothing more."""

from __future__ import annotations

from dataclasses import dataclass

from inference.domain.conversation import Conversation
from inference.domain.errors import InvalidRequest
from inference.domain.tokenizer import Tokenizer
from inference.openai.tokenization import DetokenizeRequest, TokenizeRequest
from inference.prompting.text_size import text_bytes
from inference.services.chat_prompts import chat_prompt
from inference.services.model_catalog import ServedModel
from inference.services.prompt_pool import PromptPool
from inference.services.prompt_size import conversation_bytes

# About a second of one of the few threads on which all prompts are made; and whatever a model could take, of
# which a token is seldom more than these bytes.
MIN_TEXT_BYTES = 1024 * 1024
BYTES_PER_TOKEN = 8


@dataclass(frozen=True, slots=True)
class Tokens:
    """Token ids, each one's text where that was asked for, and how many a request may have."""

    ids: tuple[int, ...]
    strings: tuple[str, ...] | None
    max_request_tokens: int


class TokenizationService:
    """All work is done on the prompt pool, where users take turns. Whoever calls holds a lease of the model.
    Every method raises InvalidRequest."""

    def __init__(self, *, prompt_pool: PromptPool) -> None:
        self._prompt_pool = prompt_pool

    async def tokenize(self, model: ServedModel, request: TokenizeRequest, *, user_id: int) -> Tokens:
        if request.conversation is not None:
            ids = await self._conversation_ids(model, request.conversation, user_id)
        else:
            _check_size(model, text_bytes(request.prompt or ""), param="prompt")
            ids = await self._prompt_pool.run(user_id, lambda: _prompt_ids(model.tokenizer, request))
        strings = None
        if request.wants_token_strings:
            strings = await self._prompt_pool.run(user_id, lambda: _strings(model.tokenizer, ids))
        return Tokens(ids, strings, model.description.max_request_tokens)

    async def count(self, model: ServedModel, conversation: Conversation, *, user_id: int) -> int:
        """How many tokens generating would start from, also where that is more than fit."""
        return len(await self._conversation_ids(model, conversation, user_id))

    async def _conversation_ids(
        self, model: ServedModel, conversation: Conversation, user_id: int
    ) -> tuple[int, ...]:
        _check_size(model, conversation_bytes(conversation), param="messages")
        parts = [part for message in conversation.messages for part in message.media]
        model.media.check(parts)
        filled = model.defaults.chat.fill_conversation(conversation)
        files = await model.media.load(parts)
        prompt, _ = await self._prompt_pool.run(
            user_id, lambda: chat_prompt(model, filled, files, must_fit=False)
        )
        return prompt.token_ids

    async def detokenize(self, model: ServedModel, request: DetokenizeRequest, *, user_id: int) -> str:
        """The text of the tokens; bytes that are no UTF-8 become U+FFFD, control tokens their names."""
        tokenizer = model.tokenizer
        if request.token_ids and max(request.token_ids) >= tokenizer.num_tokens:
            raise InvalidRequest(
                f"Invalid 'tokens': the token ids of this model are 0 to {tokenizer.num_tokens - 1}.",
                param="tokens",
            )
        return await self._prompt_pool.run(user_id, lambda: tokens_text(tokenizer, request.token_ids))


def _check_size(model: ServedModel, num_bytes: int, *, param: str) -> None:
    """Raises InvalidRequest for what would keep a thread for long, and no request could hold."""
    most = max(MIN_TEXT_BYTES, BYTES_PER_TOKEN * model.description.max_request_tokens)
    if num_bytes > most:
        raise InvalidRequest(f"Invalid '{param}': more than {most} bytes of text are not read.", param=param)


def _strings(tokenizer: Tokenizer, ids: tuple[int, ...]) -> tuple[str, ...]:
    return tuple([_bytes_of(tokenizer, one).decode("utf-8", "replace") for one in ids])


def _prompt_ids(tokenizer: Tokenizer, request: TokenizeRequest) -> tuple[int, ...]:
    text, add_special = request.prompt or "", request.adds_special_tokens
    return tuple(tokenizer.tokenize(text, add_special=add_special, parse_special=False))


def tokens_text(tokenizer: Tokenizer, token_ids: tuple[int, ...]) -> str:
    return b"".join([_bytes_of(tokenizer, one) for one in token_ids]).decode("utf-8", "replace")


def _bytes_of(tokenizer: Tokenizer, token_id: int) -> bytes:
    """What a token adds to the text; the name of one that adds nothing. A place of a picture or a sound has
    an id outside the vocabulary, and no text."""
    if not 0 <= token_id < tokenizer.num_tokens:
        return b""
    return tokenizer.pieces[token_id] or tokenizer.control_texts.get(token_id, "").encode()
