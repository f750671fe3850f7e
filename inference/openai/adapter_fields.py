"""The field `lora`: which LoRA adapters a request wants, and how much of each (llama-server's)."""

from __future__ import annotations

from inference.domain.adapters import MAX_ADAPTERS_A_REQUEST, MAX_REQUEST_SCALE, AdapterChoice
from inference.openai.fields import Fields

FIELD = "lora"
MAX_NAME_CHARS = 100
MAX_INDEX = 10_000


def read_adapters(fields: Fields) -> tuple[AdapterChoice, ...] | None:
    """None where the request says nothing; an empty list asks for none. Raises InvalidRequest. Whether the
    model has such adapters is known once the model is."""
    given = fields.array(FIELD)
    if given is None:
        return None
    if len(given) > MAX_ADAPTERS_A_REQUEST:
        raise fields.fail(FIELD, f"it may name at most {MAX_ADAPTERS_A_REQUEST} adapters")
    choices: list[AdapterChoice] = []
    for index, value in enumerate(given):
        if not isinstance(value, dict):
            raise fields.wrong_kind(f"{FIELD}[{index}]", "an object", value)
        choices.append(_choice(Fields(value, f"{fields.param(FIELD)}[{index}].")))
    return tuple(choices)


def _choice(one: Fields) -> AdapterChoice:
    name = one.string("name", max_chars=MAX_NAME_CHARS, is_label=True)
    index = one.integer("id", 0, MAX_INDEX)
    scale = one.number("scale", -MAX_REQUEST_SCALE, MAX_REQUEST_SCALE)
    if (name is None) == (index is None):
        raise one.fail("name", "an adapter has either a 'name' or an 'id', its place in the model's list")
    for unknown in one.unknown():
        raise one.fail(unknown, "an adapter has a 'name' or an 'id', and a 'scale'")
    return AdapterChoice(name=name, index=index, scale=scale)
