"""JSON out, of values that callers and models chose.

orjson is the fastest there is, and refuses what JSON allows: integers of more than 64 bits and more than 254
levels, both of which a schema in a request or the arguments of a call may have. Those are written by Python's
own, slowly; nobody's answer fails for them.
"""

from __future__ import annotations

import json

import orjson


def json_bytes(value: object) -> bytes:
    """UTF-8 without raw line breaks. Half of a surrogate pair becomes a question mark."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
