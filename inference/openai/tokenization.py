"""POST /v1/tokenize and /v1/detokenize, as vLLM has them: text to token ids and back.

What is asked for here is what generating would see: `prompt` as a completion's, `messages` as a chat's.
A prompt may be longer than any context, since to find out whether it fits is what this is for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from inference.domain.conversation import Conversation
from inference.domain.errors import InvalidRequest
from inference.openai.fields import Fields
from inference.openai.json_body import parse_object
from inference.openai.prompts import MAX_PROMPT_IDS, check_token_ids
from inference.openai.validation import check_ignored, read_conversation, read_model


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizeRequest:
    """`model` None is the one that is served. Either `prompt` or `conversation` is there.

    `adds_special_tokens`: the prompt gets BOS where the model wants one, as a completion's does; for a
    conversation that is its template's affair.
    """

    model: str | None
    prompt: str | None = None
    conversation: Conversation | None = None
    adds_special_tokens: bool = True
    wants_token_strings: bool = False
    ignored_parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DetokenizeRequest:
    """`token_ids` are not negative, but may lie outside the vocabulary."""

    model: str | None
    token_ids: tuple[int, ...]
    ignored_parameters: tuple[str, ...] = ()


def parse_tokenize_request(body: bytes, *, strict_fields: bool) -> TokenizeRequest:
    """Read the body of POST /v1/tokenize. Raises InvalidRequest."""
    fields = Fields(parse_object(body))
    ignored: list[str] = []
    model = read_model(fields) if fields.take("model") is not None else None
    prompt, conversation = fields.string("prompt"), None
    if (prompt is None) == (fields.take("messages") is None):
        raise InvalidRequest(
            "Give either 'prompt' or 'messages', and not both.",
            param="prompt" if prompt is None else "messages",
        )
    if prompt is None:
        conversation = read_conversation(fields, ignored)
    adds_special_tokens = fields.boolean("add_special_tokens")
    wants_token_strings = fields.boolean("return_token_strs") or False
    return TokenizeRequest(
        model=model,
        prompt=prompt,
        conversation=conversation,
        adds_special_tokens=adds_special_tokens is not False,
        wants_token_strings=wants_token_strings,
        ignored_parameters=check_ignored([*ignored, *fields.unknown()], strict_fields=strict_fields),
    )


def parse_detokenize_request(body: bytes, *, strict_fields: bool) -> DetokenizeRequest:
    """Read the body of POST /v1/detokenize. Raises InvalidRequest."""
    fields = Fields(parse_object(body))
    model = read_model(fields) if fields.take("model") is not None else None
    values = fields.array("tokens")
    if values is None:
        raise fields.missing("tokens")
    if len(values) > MAX_PROMPT_IDS:
        raise fields.fail("tokens", f"it may hold at most {MAX_PROMPT_IDS} token ids")
    return DetokenizeRequest(
        model=model,
        token_ids=check_token_ids(fields, "tokens", values),
        ignored_parameters=check_ignored(fields.unknown(), strict_fields=strict_fields),
    )


def tokenize_body(
    token_ids: Sequence[int], token_strings: Sequence[str] | None, *, max_request_tokens: int
) -> bytes:
    """vLLM's TokenizeResponse. `token_strings` None where nobody asked for them."""
    return orjson.dumps(
        {
            "count": len(token_ids),
            "max_model_len": max_request_tokens,
            "tokens": token_ids,
            "token_strs": token_strings,
        }
    )


def detokenize_body(text: str) -> bytes:
    """vLLM's DetokenizeResponse."""
    return orjson.dumps({"prompt": text})
