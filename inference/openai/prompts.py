"""The `prompt` of a completion: text, or token ids, alone or as the only item of a list."""

from __future__ import annotations

from inference.domain.errors import InvalidRequest, UnsupportedParameter
from inference.openai.fields import Fields

# More ids than any context that we could serve, few enough to be checked in a moment.
MAX_PROMPT_IDS = 1_048_576


def parse_prompt(fields: Fields) -> str | tuple[int, ...]:
    """Text that is not empty, or at least one token id that is not negative.

    Whether an id is in the vocabulary is for the model's tokenizer to say. A list of several
    prompts is refused: it would need several answers.
    """
    value = fields.take("prompt")
    if value is None:
        raise fields.missing("prompt")
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str | list):
        value = value[0]
    if isinstance(value, str):
        if not value:
            raise fields.fail("prompt", "it must not be empty")
        return value
    if not isinstance(value, list):
        raise fields.wrong_kind("prompt", "a string or an array of token ids", value)
    return _token_ids(fields, value)


def _token_ids(fields: Fields, values: list[object]) -> tuple[int, ...]:
    if not values:
        raise fields.fail("prompt", "it must not be empty")
    if isinstance(values[0], str | list):
        raise UnsupportedParameter(
            "'prompt' may hold one prompt only: send several requests for several prompts.", param="prompt"
        )
    if len(values) > MAX_PROMPT_IDS:
        raise InvalidRequest(
            f"Invalid 'prompt': it may hold at most {MAX_PROMPT_IDS} token ids.",
            param="prompt",
            code="context_length_exceeded",
        )
    return check_token_ids(fields, "prompt", values)


def check_token_ids(fields: Fields, name: str, values: list[object]) -> tuple[int, ...]:
    """Token ids, of which none is negative. Raises InvalidRequest naming the field."""
    if not set(map(type, values)) <= {int}:  # `type`, because true is an int too
        raise fields.fail(name, "an array must hold token ids only")
    ids = tuple(value for value in values if isinstance(value, int))
    if ids and min(ids) < 0:
        raise fields.fail(name, "token ids must not be negative")
    return ids
