"""From an Authorization or x-api-key header to a principal, or to the 401 that says little and enough."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from accounts.contracts import AccountsUnavailable, KeyLookup, KeyState, Principal
from accounts.keys import read_key_of
from accounts.passes import read_pass_of
from accounts.refusals import KEY_REFUSALS, NO_KEY
from inference.domain.errors import AuthenticationFailed, ServiceUnavailable

Headers = Sequence[tuple[bytes, bytes]]
LookUp = Callable[[str], Awaitable[KeyLookup]]
LookUpPass = Callable[[str, Headers], Awaitable[KeyLookup]]
_CREDENTIALS = (b"authorization", b"x-api-key")


async def no_passes(shown: str, headers: Headers) -> KeyLookup:
    """Where there is no console to give any."""
    return KeyLookup(KeyState.UNKNOWN)


class Authenticator:
    """Asks accounts who is calling. `note_use` hears of each accepted key, `note_refusal` of the code of
    each refusal; neither may wait. `look_up_pass` is asked where no key is shown, but a pass for one."""

    def __init__(
        self,
        look_up: LookUp,
        note_use: Callable[[int], None],
        *,
        look_up_pass: LookUpPass = no_passes,
        note_refusal: Callable[[str], None] = lambda code: None,
    ) -> None:
        self._look_up = look_up
        self._look_up_pass = look_up_pass
        self._note_use = note_use
        self._note_refusal = note_refusal

    async def authenticate(self, headers: Headers) -> Principal:
        """Raises AuthenticationFailed, or ServiceUnavailable where nobody can say (database away)."""
        key = read_key_of(headers)
        shown_pass = None if key is not None else read_pass_of(headers)
        if key is None and shown_pass is None:
            has_header = any(name in _CREDENTIALS for name, _ in headers)
            self._note_refusal(AuthenticationFailed.default_code)
            raise AuthenticationFailed(KEY_REFUSALS[KeyState.UNKNOWN].message if has_header else NO_KEY)
        try:
            if key is not None:
                found = await self._look_up(key)
            else:
                assert shown_pass is not None
                found = await self._look_up_pass(shown_pass, headers)
        except AccountsUnavailable:
            raise ServiceUnavailable("Keys cannot be checked right now. Please retry shortly.") from None
        if found.principal is None:
            refusal = KEY_REFUSALS[found.state]
            self._note_refusal(refusal.code)
            raise AuthenticationFailed(refusal.message, code=refusal.code)
        self._note_use(found.principal.key_id)
        return found.principal
