"""POST /v1/rerank as Jina, Cohere, vLLM and llama-server have it: how well does each document answer?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from inference.domain.errors import InvalidRequest
from inference.openai.embeddings import MAX_INPUTS
from inference.openai.fields import Fields, kind_of
from inference.openai.json_body import parse_object
from inference.openai.json_text import json_bytes
from inference.openai.parameters import MAX_LABEL_CHARS, RERANK_REFUSALS, check_refused
from inference.openai.protocol import MAX_INT32
from inference.openai.validation import MIN_TIMEOUT_S, check_ignored, read_model


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankRequest:
    """`query` is not empty, documents may be. `top_n` None: all of them."""

    model: str
    query: str
    documents: tuple[str, ...]
    top_n: int | None = None
    returns_documents: bool = False
    user: str | None = None
    timeout_s: float | None = None
    ignored_parameters: tuple[str, ...] = ()

    is_stream = False
    metadata: Mapping[str, str] | None = None

    def param(self, index: int) -> str:
        """The name of one of the documents."""
        return f"documents[{index}]"


def parse_rerank_request(body: bytes, *, strict_fields: bool) -> RerankRequest:
    """Read the body of POST /v1/rerank. Raises InvalidRequest."""
    fields = Fields(parse_object(body))
    model = read_model(fields)
    query = fields.string("query")
    if query is None:
        raise fields.missing("query")
    if not query:
        raise fields.fail("query", "it must not be empty")
    documents = _documents(fields)
    top_n = fields.integer("top_n", 1, MAX_INT32)
    returns_documents = fields.boolean("return_documents") or False
    check_refused(fields, RERANK_REFUSALS)
    user = fields.string("user", max_chars=MAX_LABEL_CHARS, is_label=True)
    timeout_s = fields.number("timeout_s", MIN_TIMEOUT_S, MAX_INT32)
    return RerankRequest(
        model=model,
        query=query,
        documents=documents,
        top_n=top_n,
        returns_documents=returns_documents,
        user=user,
        timeout_s=timeout_s,
        ignored_parameters=check_ignored(fields.unknown(), strict_fields=strict_fields),
    )


def _documents(fields: Fields) -> tuple[str, ...]:
    values = fields.array("documents")
    if values is None:
        raise fields.missing("documents")
    if not values:
        raise fields.fail("documents", "it must not be empty")
    if len(values) > MAX_INPUTS:
        raise fields.fail("documents", f"it may hold at most {MAX_INPUTS} documents")
    return tuple([_text(value, f"documents[{index}]") for index, value in enumerate(values)])


def _text(value: object, param: str) -> str:
    text = value.get("text") if isinstance(value, dict) else value
    if not isinstance(text, str):
        raise InvalidRequest(
            f"Invalid '{param}': expected a string or an object with 'text', but got {kind_of(value)}.",
            param=param,
        )
    return text


def rerank_body(request: RerankRequest, scores: Sequence[float], *, model: str, num_tokens: int) -> bytes:
    """The best first; of two alike the one that was named first."""
    order = sorted(range(len(scores)), key=lambda index: -scores[index])
    results: list[dict[str, object]] = []
    for index in order[: request.top_n]:
        result: dict[str, object] = {"index": index, "relevance_score": scores[index]}
        if request.returns_documents:
            result["document"] = {"text": request.documents[index]}
        results.append(result)
    return json_bytes(
        {
            "model": model,
            "object": "list",
            "usage": {"prompt_tokens": num_tokens, "total_tokens": num_tokens},
            "results": results,
        }
    )
