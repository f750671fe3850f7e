"""Names for calls that a model has given none."""

from __future__ import annotations

import secrets
import string
import uuid
from typing import Final

_LETTERS: Final = string.ascii_letters + string.digits
# Mistral's templates refuse others in the history ("alphanumeric strings with length 9").
MISTRAL_CHARS: Final = 9


def new_call_id() -> str:
    """`call_` and 32 hexadecimal digits."""
    return f"call_{uuid.uuid4().hex}"


def new_mistral_call_id() -> str:
    return "".join([secrets.choice(_LETTERS) for _ in range(MISTRAL_CHARS)])
