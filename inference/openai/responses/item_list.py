"""What a stored response was made of: its input, and all that was said before it, as a list in pages."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

import orjson

from inference.domain.errors import InvalidRequest
from inference.domain.kept_answers import KeptResponse
from inference.openai.responses.items import input_items

MAX_PAGE = 100  # both are OpenAI's
DEFAULT_PAGE = 20
MAX_PARAMETERS = 16
_PREFIXES = {"message": "msg", "function_call": "fc", "function_call_output": "fco", "reasoning": "rs"}


@dataclass(frozen=True, slots=True)
class ItemQuery:
    """`after` is the id behind which the page begins."""

    limit: int = DEFAULT_PAGE
    is_ascending: bool = False
    after: str | None = None


def parse_item_query(query: str) -> ItemQuery:
    """Raises InvalidRequest naming the parameter."""
    try:
        given = dict(parse_qsl(query, keep_blank_values=True, max_num_fields=MAX_PARAMETERS))
    except ValueError:
        raise InvalidRequest("The query string has too many parameters.") from None
    limit = given.get("limit", str(DEFAULT_PAGE))
    if not (limit.isascii() and limit.isdigit() and len(limit) <= 3 and 1 <= int(limit) <= MAX_PAGE):
        raise InvalidRequest(f"Invalid 'limit': it must be between 1 and {MAX_PAGE}.", param="limit")
    order = given.get("order", "desc")
    if order not in ("asc", "desc"):
        raise InvalidRequest("Invalid 'order': it must be 'asc' or 'desc'.", param="order")
    return ItemQuery(int(limit), order == "asc", given.get("after") or None)


def said_items(conversation: Sequence[KeptResponse]) -> list[Any]:
    """All items of the responses, inputs and outputs, in order: what the next one goes on from."""
    items: list[Any] = []
    for kept in conversation:
        items += input_items(json.loads(kept.request).get("input")) or ()
        items += json.loads(kept.stored.object)["output"]
    return items


def item_list_body(conversation: Sequence[KeptResponse], query: ItemQuery) -> bytes:
    """The page of the items that led to the last response of the conversation: its own output is not among
    them. Raises InvalidRequest where `after` is none of them."""
    items = list(_led_to(conversation))
    if not query.is_ascending:
        items.reverse()
    begin = 0
    if query.after is not None:
        begin = next((index for index, item in enumerate(items, 1) if item["id"] == query.after), 0)
        if not begin:
            raise InvalidRequest("Invalid 'after': there is no item of this id.", param="after")
    page = items[begin : begin + query.limit]
    return orjson.dumps(
        {
            "object": "list",
            "data": page,
            "first_id": page[0]["id"] if page else "",
            "last_id": page[-1]["id"] if page else "",
            "has_more": begin + query.limit < len(items),
        }
    )


def _led_to(conversation: Sequence[KeptResponse]) -> Iterator[dict[str, Any]]:
    for number, kept in enumerate(conversation, 1):
        for index, item in enumerate(input_items(json.loads(kept.request).get("input")) or ()):
            if isinstance(item, dict):
                yield _resource(item, f"{kept.stored.id} {index}")
        if number < len(conversation):
            yield from json.loads(kept.stored.object)["output"]


def _resource(item: dict[str, Any], place: str) -> dict[str, Any]:
    """An item as the schema's ItemResource: with an id, which is the same each time, and a status."""
    kind = item.get("type") or "message"
    digest = hashlib.sha256(place.encode()).hexdigest()[:32]
    given = {name: value for name, value in item.items() if value is not None}
    shown = {"id": f"{_PREFIXES.get(kind, 'item')}_{digest}", "status": "completed", **given, "type": kind}
    if kind == "reasoning":
        shown.setdefault("summary", [])
    if kind == "message":
        shown["content"] = _content(item)
    return shown


def _content(item: dict[str, Any]) -> list[Any]:
    """Texts as parts, each of the kind that its role has."""
    is_answer = item.get("role") == "assistant"
    given = item.get("content")
    parts = [{"type": "text", "text": given}] if isinstance(given, str) else given or []
    shown = []
    for part in parts:
        if part.get("type") in ("text", "input_text", "output_text"):
            text = part.get("text", "")
            shown.append(
                {"annotations": [], "logprobs": [], **part, "type": "output_text", "text": text}
                if is_answer
                else {"type": "input_text", "text": text}
            )
        elif part.get("type") == "input_image":
            shown.append({"detail": "auto", **part})
        else:
            shown.append(part)
    return shown
