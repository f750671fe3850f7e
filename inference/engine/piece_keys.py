"""Names for what was computed for the beginnings of prompts, without keeping the prompts.

A piece of KV state is right for a prompt if all tokens up to its end are the same, and the user, the
model and whatever else the namespace stands for. One digest over all of that says so, and as it goes
on from the digest of the piece before, a prompt's names cost one pass over its tokens.
"""

from __future__ import annotations

from hashlib import blake2b

from inference.engine.sequence import TokenArray

KEY_BYTES = 32


class PieceKeys:
    """Equal keys mean equal beginnings: at 256 bits nobody finds two that collide.

    `secret`: who does not have it cannot tell from a key which prompt it stands for, nor try guesses.
    `num_tokens`: of one piece.
    """

    def __init__(self, *, secret: bytes, num_tokens: int) -> None:
        self.num_tokens = num_tokens
        self._secret = secret

    def chain(self, namespace: str, token_ids: TokenArray) -> list[bytes]:
        """The keys of all whole pieces of these tokens (int32), the first one first."""
        key = self._digest(b"namespace", namespace.encode())
        keys: list[bytes] = []
        for begin in range(0, len(token_ids) - self.num_tokens + 1, self.num_tokens):
            key = self._digest(key, token_ids[begin : begin + self.num_tokens].tobytes())
            keys.append(key)
        return keys

    def whole(self, namespace: str, token_ids: TokenArray) -> bytes:
        """The key of a state of all these tokens (int32), which is in no chain."""
        return self._digest(self._digest(b"whole", namespace.encode()), token_ids.tobytes())

    def _digest(self, before: bytes, content: bytes) -> bytes:
        # Each is made either of a word and a namespace, or of a digest and tokens. No word begins another.
        return blake2b(before + content, key=self._secret, digest_size=KEY_BYTES).digest()
