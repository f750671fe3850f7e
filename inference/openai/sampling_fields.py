"""Reading what a body says about sampling, so that nothing of it can be ignored in silence.

The same parameter has several names among servers (llama.cpp's, vLLM's): all of them are read, and
two that contradict each other are refused. A token id can only be checked against a vocabulary
once the model is known; all else is checked here.
"""

from __future__ import annotations

import re
from typing import Any

from inference.openai.fields import Fields
from inference.openai.protocol import INTEGERS, RANGES, SamplingRequest

# Clients need a few hundred at most; each entry costs a lookup in every step.
MAX_LOGIT_BIAS_ENTRIES = 256
MAX_LOGIT_BIAS = 100  # OpenAI's

_ALIASES = {
    "repeat_penalty": ("repetition_penalty",),
}
# The digits of a 32-bit id, without sign, spaces or leading zeros: two keys are never one token.
_TOKEN_ID = re.compile(r"(0|[1-9][0-9]{0,9})", re.ASCII)


def read_sampling(fields: Fields) -> SamplingRequest:
    """Raises InvalidRequest naming the field, under the name that the client used."""
    numbers: dict[str, Any] = {name: _read_number(fields, name) for name in RANGES}
    return SamplingRequest(
        **numbers,
        logit_bias=_read_logit_bias(fields),
        seed=fields.integer("seed", -(2**63), 2**63 - 1),
    )


def _read_number(fields: Fields, name: str) -> int | float | None:
    """The value under the parameter's own name or one of its aliases."""
    low, high = RANGES[name]
    found: int | float | None = None
    for alias in (name, *_ALIASES.get(name, ())):
        if name in INTEGERS:
            value: int | float | None = fields.integer(alias, int(low), int(high))
        else:
            value = fields.number(alias, low, high)
        if value is None:
            continue
        if found is not None and value != found:
            raise fields.fail(alias, f"it is another name of '{name}', and the two differ")
        found = value
    return found


def _read_logit_bias(fields: Fields) -> tuple[tuple[int, float], ...]:
    """Token ids and what is added to their logits, as pairs; {} and null are none."""
    given = fields.mapping("logit_bias")
    if not given:
        return ()
    if len(given) > MAX_LOGIT_BIAS_ENTRIES:
        raise fields.fail("logit_bias", f"it may have at most {MAX_LOGIT_BIAS_ENTRIES} entries")
    biases = []
    for key, value in given.items():
        if not _TOKEN_ID.fullmatch(key):
            raise fields.fail("logit_bias", "its keys must be token ids, written as decimal numbers")
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not -MAX_LOGIT_BIAS <= value <= MAX_LOGIT_BIAS:  # type: ignore[operator]
            raise fields.fail(
                "logit_bias", f"its values must be numbers between -{MAX_LOGIT_BIAS} and {MAX_LOGIT_BIAS}"
            )
        biases.append((int(key), float(value)))  # type: ignore[arg-type]
    return tuple(biases)
