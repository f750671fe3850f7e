"""The `prompt` of a completion: text or token ids, alone or as a list of either."""

from __future__ import annotations

from inference.domain.errors import InvalidRequest
from inference.openai.fields import Fields, kind_of
from inference.openai.protocol import Prompt

# More ids than any context that we could serve, few enough to be checked in a moment.
MAX_PROMPT_IDS = 1_048_576
MAX_PROMPTS = 2048  # OpenAI's for its lists of inputs


def parse_prompts(fields: Fields) -> tuple[Prompt, ...]:
    """At least one prompt: text that is not empty, or at least one token id that is not negative. Those of
    a list are of one kind.

    Whether an id is in the vocabulary is for the model's tokenizer to say. How many prompts can be
    served at once depends on the model, too.
    """
    value = fields.take("prompt")
    if value is None:
        raise fields.missing("prompt")
    if isinstance(value, str):
        return (_text(fields, "prompt", value),)
    if not isinstance(value, list):
        raise fields.wrong_kind("prompt", "a string, an array of strings or token ids", value)
    if not value:
        raise fields.fail("prompt", "it must not be empty")
    kind = type(value[0])
    if kind is not str and kind is not list:
        return (_token_ids(fields, "prompt", value),)
    if len(value) > MAX_PROMPTS:
        raise fields.fail("prompt", f"it may hold at most {MAX_PROMPTS} prompts")
    prompts: list[Prompt] = []
    for index, one in enumerate(value):
        name = "prompt" if len(value) == 1 else f"prompt[{index}]"
        if type(one) is not kind:
            expected = "a string" if kind is str else "an array of token ids"
            raise fields.fail(name, f"expected {expected} like those before it, but got {kind_of(one)}")
        prompts.append(_text(fields, name, one) if isinstance(one, str) else _token_ids(fields, name, one))
    return tuple(prompts)


def _text(fields: Fields, name: str, value: str) -> str:
    if not value:
        raise fields.fail(name, "it must not be empty")
    return value


def _token_ids(fields: Fields, name: str, values: list[object]) -> tuple[int, ...]:
    if not values:
        raise fields.fail(name, "it must not be empty")
    if len(values) > MAX_PROMPT_IDS:
        raise InvalidRequest(
            f"Invalid '{name}': it may hold at most {MAX_PROMPT_IDS} token ids.",
            param=name,
            code="context_length_exceeded",
        )
    return check_token_ids(fields, name, values)


def check_token_ids(fields: Fields, name: str, values: list[object]) -> tuple[int, ...]:
    """Token ids, of which none is negative. Raises InvalidRequest naming the field."""
    if not set(map(type, values)) <= {int}:  # `type`, because true is an int too
        raise fields.fail(name, "an array must hold token ids only")
    ids = tuple(value for value in values if isinstance(value, int))
    if ids and min(ids) < 0:
        raise fields.fail(name, "token ids must not be negative")
    return ids
