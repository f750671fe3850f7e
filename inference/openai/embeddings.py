"""POST /v1/embeddings as OpenAI has it: texts or token ids in, vectors out."""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from inference.domain.errors import InvalidRequest
from inference.openai.fields import Fields, kind_of
from inference.openai.json_body import parse_object
from inference.openai.parameters import EMBEDDING_REFUSALS, MAX_LABEL_CHARS, check_refused
from inference.openai.prompts import MAX_PROMPT_IDS
from inference.openai.protocol import MAX_INT32
from inference.openai.validation import MIN_TIMEOUT_S, check_ignored, read_model

MAX_INPUTS = 2048  # OpenAI's
ENCODING_FORMATS = ("float", "base64")

EmbeddingInput = str | tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingsRequest:
    """`inputs` are texts, or token ids that may still lie outside the vocabulary; none is empty. `is_list`:
    they came as a list, so that one at fault has an index. `dimensions` None: as many as there are."""

    model: str
    inputs: tuple[EmbeddingInput, ...]
    is_list: bool
    is_base64: bool = False
    dimensions: int | None = None
    user: str | None = None
    timeout_s: float | None = None
    ignored_parameters: tuple[str, ...] = ()

    is_stream = False
    metadata: Mapping[str, str] | None = None

    def param(self, index: int) -> str:
        """The name of one of the inputs."""
        return f"input[{index}]" if self.is_list else "input"


def parse_embeddings_request(body: bytes, *, strict_fields: bool) -> EmbeddingsRequest:
    """Read the body of POST /v1/embeddings. Raises InvalidRequest."""
    fields = Fields(parse_object(body))
    model = read_model(fields)
    inputs, is_list = _inputs(fields)
    encoding_format = fields.choice("encoding_format", ENCODING_FORMATS)
    dimensions = fields.integer("dimensions", 1, MAX_INT32)
    check_refused(fields, EMBEDDING_REFUSALS)
    user = fields.string("user", max_chars=MAX_LABEL_CHARS, is_label=True)
    timeout_s = fields.number("timeout_s", MIN_TIMEOUT_S, MAX_INT32)
    return EmbeddingsRequest(
        model=model,
        inputs=inputs,
        is_list=is_list,
        is_base64=encoding_format == "base64",
        dimensions=dimensions,
        user=user,
        timeout_s=timeout_s,
        ignored_parameters=check_ignored(fields.unknown(), strict_fields=strict_fields),
    )


def _inputs(fields: Fields) -> tuple[tuple[EmbeddingInput, ...], bool]:
    value = fields.take("input")
    if value is None:
        raise fields.missing("input")
    if isinstance(value, str):
        if not value:
            raise fields.fail("input", "it must not be empty")
        return (value,), False
    if not isinstance(value, list):
        raise fields.wrong_kind("input", "a string, or an array of strings or token ids", value)
    if not value:
        raise fields.fail("input", "it must not be empty")
    kinds = set(map(type, value))
    if kinds == {int}:
        return (_token_ids("input", value),), False
    if len(value) > MAX_INPUTS:
        raise fields.fail("input", f"it may hold at most {MAX_INPUTS} texts")
    if kinds == {str}:
        if "" in value:
            raise _empty(value.index(""))
        return tuple(value), True
    if kinds == {list}:
        if [] in value:
            raise _empty(value.index([]))
        return tuple([_token_ids(f"input[{index}]", ids) for index, ids in enumerate(value)]), True
    odd = next((one for one in value if type(one) not in (str, list)), None)
    found = "both" if odd is None else kind_of(odd)
    raise fields.fail("input", f"an array must hold strings, or arrays of token ids, not {found}")


def _empty(index: int) -> InvalidRequest:
    return InvalidRequest(f"Invalid 'input[{index}]': it must not be empty.", param=f"input[{index}]")


def _token_ids(param: str, values: list[Any]) -> tuple[int, ...]:
    if len(values) > MAX_PROMPT_IDS:
        raise InvalidRequest(
            f"Invalid '{param}': it may hold at most {MAX_PROMPT_IDS} token ids.",
            param=param,
            code="context_length_exceeded",
        )
    if set(map(type, values)) != {int}:  # `type`, because true is an int too
        raise InvalidRequest(f"Invalid '{param}': an array must hold token ids only.", param=param)
    if min(values) < 0:
        raise InvalidRequest(f"Invalid '{param}': token ids must not be negative.", param=param)
    return tuple(values)


def embeddings_body(rows: Any, *, model: str, num_tokens: int, is_base64: bool) -> bytes:
    """The schema's CreateEmbeddingResponse of float32 rows (number of inputs, width). As base64 a row is
    its little-endian bytes, which is what OpenAI's clients ask for unasked."""
    shown = rows.astype("<f4", order="C", copy=False)
    values = (
        [binascii.b2a_base64(row.tobytes(), newline=False).decode() for row in shown] if is_base64 else shown
    )
    return orjson.dumps(
        {
            "object": "list",
            "data": [
                {"object": "embedding", "index": index, "embedding": value}
                for index, value in enumerate(values)
            ],
            "model": model,
            "usage": {"prompt_tokens": num_tokens, "total_tokens": num_tokens},
        },
        option=orjson.OPT_SERIALIZE_NUMPY,
    )
