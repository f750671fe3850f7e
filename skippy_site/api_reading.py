"""How the management API reads and answers: small bodies of JSON in, and JSON out whatever Accept says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rest_framework.exceptions import APIException, ParseError
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.parsers import JSONParser
from rest_framework.request import Request

# A key with a hundred models and networks takes some 30 kB.
MAX_BODY_BYTES = 256 * 1024


class BodyTooLarge(APIException):
    status_code = 413
    default_code = "payload_too_large"
    default_detail = f"The request body is larger than {MAX_BODY_BYTES} bytes."


class BoundedJsonParser(JSONParser):
    """JSON of bounded size and depth, without NaN and without two values for one name."""

    def parse(
        self, stream: Any, media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        body = stream.read(MAX_BODY_BYTES + 1)
        if len(body) > MAX_BODY_BYTES:
            raise BodyTooLarge
        try:
            return json.loads(body.decode("utf-8"), parse_constant=_refuse, object_pairs_hook=_object)
        except RecursionError:
            raise ParseError("The body is nested too deeply.") from None
        except ValueError as error:  # also of a number with too many digits, and of bytes that are no UTF-8
            if isinstance(error, json.JSONDecodeError):
                raise ParseError(f"The body is not JSON: {error.msg} at character {error.pos}.") from None
            raise ParseError("The body is not JSON in UTF-8.") from None


class JsonAlways(DefaultContentNegotiation):
    """There is one form of answers, so nobody is refused for asking for another."""

    def select_renderer(self, request: Request, renderers: Any, format_suffix: Any = None) -> Any:
        return renderers[0], renderers[0].media_type


def _refuse(_name: str) -> Any:
    raise ValueError


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ParseError("The body names a field twice.")
    return found
