"""From an Authorization header to a principal, or to the 401 that says as little as is useful."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from accounts.contracts import AccountsUnavailable, KeyLookup, KeyState, Principal
from accounts.keys import read_bearer_of
from inference.domain.errors import AuthenticationFailed, ServiceUnavailable

Headers = Sequence[tuple[bytes, bytes]]
LookUp = Callable[[str], Awaitable[KeyLookup]]

_NO_KEY = "You didn't provide an API key. Send it in the header Authorization: Bearer YOUR_KEY."
_NO_GOOD = "Incorrect API key provided."
_REFUSALS = {
    KeyState.UNKNOWN: (_NO_GOOD, "invalid_api_key"),
    KeyState.EXPIRED: ("This API key has expired.", "api_key_expired"),
    KeyState.REVOKED: ("This API key has been revoked.", "api_key_revoked"),
    KeyState.USER_INACTIVE: ("The account of this API key is not active.", "account_inactive"),
}


class Authenticator:
    """Asks accounts who is calling. `note_use` hears of each accepted key, `note_refusal` of the code of
    each refusal; neither may wait."""

    def __init__(
        self,
        look_up: LookUp,
        note_use: Callable[[int], None],
        *,
        note_refusal: Callable[[str], None] = lambda code: None,
    ) -> None:
        self._look_up = look_up
        self._note_use = note_use
        self._note_refusal = note_refusal

    async def authenticate(self, headers: Headers) -> Principal:
        """Raises AuthenticationFailed, or ServiceUnavailable where nobody can say (database away)."""
        key = read_bearer_of(headers)
        if key is None:
            has_header = any(name == b"authorization" for name, _ in headers)
            self._note_refusal(AuthenticationFailed.default_code)
            raise AuthenticationFailed(_NO_GOOD if has_header else _NO_KEY)
        try:
            found = await self._look_up(key)
        except AccountsUnavailable:
            raise ServiceUnavailable("Keys cannot be checked right now. Please retry shortly.") from None
        if found.principal is None:
            message, code = _REFUSALS[found.state]
            self._note_refusal(code)
            raise AuthenticationFailed(message, code=code)
        self._note_use(found.principal.key_id)
        return found.principal
