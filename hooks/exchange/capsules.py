"""Ids that an answer's headers carry."""

from __future__ import annotations

import re
import uuid

from hooks.applying import ActionRefused
from hooks.contracts.actions import CapsuleMarker

MAX_CAPSULE_CHARS = 1000
# What a header's value may be (RFC 9110, 5.5), of ASCII: anything else is read differently by different
# clients; white space around it would be lost.
_HEADER_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?")

Capsule = tuple[str, str | None]


def capsule_of(action: CapsuleMarker) -> Capsule:
    """The id, a new one where none is given, and the nonce. Raises ActionRefused for what no header can
    carry."""
    capsule_id = str(uuid.uuid4()) if action.capsule_id is None else action.capsule_id
    if not _is_header_value(capsule_id):
        raise ActionRefused("the capsule's id is no header value")
    if action.nonce is not None and not _is_header_value(action.nonce):
        raise ActionRefused("the capsule's nonce is no header value")
    return capsule_id, action.nonce


def _is_header_value(text: str) -> bool:
    return len(text) <= MAX_CAPSULE_CHARS and _HEADER_VALUE.fullmatch(text) is not None
