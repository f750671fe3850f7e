"""How far ahead a sequence is guessed: further after good guesses, less far after bad ones."""

from __future__ import annotations

INITIAL_WINDOW = 4


class DraftWindow:
    """From 1 to `max_tokens` tokens, for one sequence.

    A draft that was accepted whole, or up to its last token, lets it grow by one. One that was rejected
    earlier shrinks it to one less, but not below what was committed: the accepted tokens and the one that the
    model drew instead. Where the answer ended inside a draft, it stays.
    """

    __slots__ = ("_max_tokens", "size")

    def __init__(self, max_tokens: int) -> None:
        if max_tokens < 1:
            raise ValueError(f"a draft has at least one token, not {max_tokens}")
        self._max_tokens = max_tokens
        self.size = min(INITIAL_WINDOW, max_tokens)

    def observe(self, *, num_drafted: int, num_accepted: int) -> None:
        """Of so many drafted tokens so many were accepted, and the answer goes on."""
        if num_accepted >= num_drafted - 1:
            self.size = min(self.size + 1, self._max_tokens)
        else:
            self.size = min(max(self.size - 1, num_accepted + 1, 1), self._max_tokens)

    def __repr__(self) -> str:
        return f"<DraftWindow of {self.size}, at most {self._max_tokens}>"
