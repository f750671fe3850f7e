"""How many tokens an answer may have, given what was asked and what the context leaves."""

from __future__ import annotations

from inference.domain.errors import ContextLengthExceeded


def check_prompt_fits(num_prompt_tokens: int, *, max_request_tokens: int, param: str) -> None:
    """Raise ContextLengthExceeded unless at least one token of answer fits behind the prompt."""
    if num_prompt_tokens >= max_request_tokens:
        raise ContextLengthExceeded(
            f"This model's maximum context length is {max_request_tokens} tokens, for prompt and answer "
            f"together. However, your prompt has {num_prompt_tokens} tokens. Please shorten it.",
            param=param,
        )


def check_text_fits(num_bytes: int, *, max_piece_bytes: int, max_request_tokens: int, param: str) -> None:
    """Raise ContextLengthExceeded for a text that cannot fit however it is tokenized: no token stands
    for more than `max_piece_bytes`. Spares the tokenizer a text of megabytes."""
    num_tokens_at_least = -(-num_bytes // max(1, max_piece_bytes))
    if num_tokens_at_least >= max_request_tokens:
        raise ContextLengthExceeded(
            f"This model's maximum context length is {max_request_tokens} tokens, for prompt and answer "
            f"together. However, your prompt of {num_bytes} bytes has at least {num_tokens_at_least} "
            f"tokens. Please shorten it.",
            param=param,
        )


def resolve_max_tokens(wanted: int, *, num_prompt_tokens: int, max_request_tokens: int) -> int:
    """The answer's limit: what is wanted, and never more than the context leaves.

    At least 1 (0 where that was asked for); the prompt was found to fit before (`check_prompt_fits`).
    """
    return max(min(wanted, 1), min(wanted, max_request_tokens - num_prompt_tokens))
