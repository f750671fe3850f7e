"""Two people who edit the same thing: the second is told, if he says which state he had before him.

`ETag` names the state of what is shown; a change with `If-Match` is made only to that state. What changes
by itself (last use, a key's state, what processes say of a model, whom a policy names in vain) is no part
of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from rest_framework.exceptions import APIException
from rest_framework.request import Request
from rest_framework.response import Response

_BY_ITSELF = frozenset({"last_used_at", "state", "status", "missing"})


class PreconditionFailed(APIException):
    status_code = 412
    default_code = "precondition_failed"
    default_detail = "It was changed meanwhile. Read it again, and then change it."


def etag_of(shown: Mapping[str, Any]) -> str:
    kept = {name: value for name, value in shown.items() if name not in _BY_ITSELF}
    return f'"{hashlib.sha256(json.dumps(kept, sort_keys=True, default=str).encode()).hexdigest()[:32]}"'


def check_if_match(request: Request, shown: Mapping[str, Any]) -> None:
    """Raises PreconditionFailed. Without the header everything is as the caller wants it."""
    header = request.META.get("HTTP_IF_MATCH", "").strip()
    if not header or header == "*":
        return
    if etag_of(shown) not in {tag.strip() for tag in header.split(",")}:
        raise PreconditionFailed


def tagged(shown: Mapping[str, Any], status: int = 200) -> Response:
    return Response(shown, status=status, headers={"ETag": etag_of(shown), "Cache-Control": "no-store"})
