"""What a caller is told whose key opens nothing: as much as is useful and no more. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass

from accounts.contracts import KeyState

NO_KEY = "You didn't provide an API key. Send it in the header Authorization: Bearer YOUR_KEY."
KEEPS_OTHERS_TEXT = (
    "Whoever has such a key can read what is kept under it: for other users only who may read their texts "
    "makes or replaces one."
)


@dataclass(frozen=True, slots=True)
class KeyRefusal:
    """A sentence for people and a code for programs."""

    message: str
    code: str


KEY_REFUSALS = {
    KeyState.UNKNOWN: KeyRefusal("Incorrect API key provided.", "invalid_api_key"),
    KeyState.EXPIRED: KeyRefusal("This API key has expired.", "api_key_expired"),
    KeyState.REVOKED: KeyRefusal("This API key has been revoked.", "api_key_revoked"),
    KeyState.USER_INACTIVE: KeyRefusal("The account of this API key is not active.", "account_inactive"),
}
