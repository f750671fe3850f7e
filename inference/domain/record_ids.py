"""The name of a record, given when its request arrives and never used again.

Callers may choose their request ids, so these can come twice; a record is told from another by an id
of our own. It is what makes a repeated write harmless: a journal that is replayed, a commit whose reply
was lost.
"""

from __future__ import annotations

import os
import uuid
from datetime import datetime

_MS = 1000
_VERSION_7 = 0x7 << 76
_VARIANT = 0b10 << 62
_RANDOM_A = ((1 << 12) - 1) << 64
_RANDOM_B = (1 << 62) - 1


def new_record_id(created_at: datetime) -> uuid.UUID:
    """A UUID of version 7 (RFC 9562 §5.7): 48 bits of Unix milliseconds, then 74 random bits, so that
    ids of one time lie together in an index."""
    milliseconds = int(created_at.timestamp() * _MS) & ((1 << 48) - 1)
    random = int.from_bytes(os.urandom(10), "big")
    value = (milliseconds << 80) | _VERSION_7 | (random & _RANDOM_A) | _VARIANT | (random & _RANDOM_B)
    return uuid.UUID(int=value)
