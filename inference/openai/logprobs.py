"""Logprobs in the two shapes that OpenAI's endpoints have for them."""

from __future__ import annotations

from collections.abc import Sequence

from inference.domain.logprobs import LikelyToken, ScoredToken


def chat_logprobs(tokens: Sequence[ScoredToken]) -> dict[str, object]:
    """`logprobs` of a choice (or a chunk's choice) of a chat: the schema's ChatCompletionTokenLogprob."""
    content = [
        {**_chat_token(token), "top_logprobs": [_chat_token(likely) for likely in token.top]}
        for token in tokens
    ]
    return {"content": content, "refusal": None}


def completion_logprobs(tokens: Sequence[ScoredToken]) -> dict[str, object]:
    """`logprobs` of a completion's choice: four lists of equal length.

    `top_logprobs` holds the drawn token too, so it may have one more than were asked for. Of a token of
    which nothing is known both are null, as OpenAI has it.
    """
    return {
        "tokens": [_completion_text(token) for token in tokens],
        "token_logprobs": [token.logprob for token in tokens],
        "top_logprobs": [None if token.logprob is None else _likely(token) for token in tokens],
        "text_offset": [token.offset for token in tokens],
    }


def _likely(token: ScoredToken) -> dict[str, float | None]:
    likely: dict[str, float | None] = {_completion_text(one): one.logprob for one in token.top}
    return {**likely, _completion_text(token): token.logprob}


def _chat_token(token: ScoredToken | LikelyToken) -> dict[str, object]:
    data = None if token.data is None else list(token.data)
    return {"token": token.text, "logprob": token.logprob, "bytes": data}


def _completion_text(token: ScoredToken | LikelyToken) -> str:
    """Parts of characters have no text; they are written as OpenAI's completions write them, so
    that two of them are not one key."""
    if token.data is not None and "\ufffd" in token.text:
        try:
            token.data.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token.data)
    return token.text
