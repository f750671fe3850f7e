"""From an Authorization or x-api-key header to a principal, or to the 401 that says little and enough."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from accounts.contracts import AccountsUnavailable, KeyLookup, KeyState, Principal
from accounts.keys import read_key_of
from accounts.refusals import KEY_REFUSALS, NO_KEY
from inference.domain.errors import AuthenticationFailed, ServiceUnavailable

Headers = Sequence[tuple[bytes, bytes]]
LookUp = Callable[[str], Awaitable[KeyLookup]]
_CREDENTIALS = (b"authorization", b"x-api-key")


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
        key = read_key_of(headers)
        if key is None:
            has_header = any(name in _CREDENTIALS for name, _ in headers)
            self._note_refusal(AuthenticationFailed.default_code)
            raise AuthenticationFailed(KEY_REFUSALS[KeyState.UNKNOWN].message if has_header else NO_KEY)
        try:
            found = await self._look_up(key)
        except AccountsUnavailable:
            raise ServiceUnavailable("Keys cannot be checked right now. Please retry shortly.") from None
        if found.principal is None:
            refusal = KEY_REFUSALS[found.state]
            self._note_refusal(refusal.code)
            raise AuthenticationFailed(refusal.message, code=refusal.code)
        self._note_use(found.principal.key_id)
        return found.principal
