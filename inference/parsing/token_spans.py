"""Which tokens a piece of text consists of, when text is held back and characters are spread.

A list of tokens beside a text is only of use if they agree: in a stream the tokens of a chunk are
those of its text, and what a stop string took away is in neither.
"""

from __future__ import annotations

from codecs import utf_8_decode
from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenSpan:
    """A token's part of the text. `data` is its bytes, without those that a stop cut off; `offset`
    is how many characters are complete before it."""

    token_id: int
    data: bytes
    offset: int


@dataclass(frozen=True, slots=True)
class _Pending:
    span: TokenSpan
    end: int
    """How many characters are complete with it."""
    before: bytes
    """Bytes of an unfinished character before it."""
    is_open: bool
    """It ends inside a character."""


class TokenSpans:
    """Follows one answer: `add` each token as it is decoded, then `release` the text that is safe.

    Released text ends where a token ends, so it may be held a little longer than stops need.
    """

    def __init__(self) -> None:
        self._pending: deque[_Pending] = deque()
        self._num_decoded = 0
        self._num_safe = 0
        self._num_sent = 0
        self._unsent = ""
        self._released: list[TokenSpan] = []

    def add(self, token_id: int, data: bytes, *, num_chars: int, before: bytes, is_open: bool) -> None:
        """The token's bytes completed `num_chars` characters."""
        span = TokenSpan(token_id, data, self._num_decoded)
        self._num_decoded += num_chars
        self._pending.append(_Pending(span, self._num_decoded, before, is_open))

    def release(self, text: str) -> str:
        """`text` is safe; returns what of all safe text may be sent now."""
        self._accept(text)
        num_whole = 0
        for index, pending in enumerate(self._pending, start=1):
            if pending.end > self._num_safe:
                break
            if not pending.is_open:
                num_whole = index
        if not num_whole:
            return ""
        end = self._num_sent
        for _ in range(num_whole):
            pending = self._pending.popleft()
            self._released.append(pending.span)
            end = pending.end
        return self._send(end)

    def finish(self, text: str, *, is_cut: bool) -> str:
        """`text` is the last that is safe; `is_cut`: a stop took all behind it away."""
        sent = self.release(text)
        while self._pending:
            pending = self._pending.popleft()
            if not is_cut or pending.end < self._num_safe:
                self._released.append(pending.span)
                continue
            num_chars = min(pending.end, self._num_safe) - pending.span.offset
            if num_chars > 0:
                self._released.append(_cut(pending, num_chars))
            if pending.end > self._num_safe:
                self._pending.clear()
        return sent + self._send(self._num_safe)

    def skip(self, num_chars: int) -> None:
        """Text that no token wrote follows all that was added so far, which was released."""
        self._num_decoded += num_chars
        self._num_safe += num_chars
        self._num_sent += num_chars

    def take(self) -> list[TokenSpan]:
        """The tokens of the text that was sent since the last call."""
        released, self._released = self._released, []
        return released

    def _accept(self, text: str) -> None:
        self._num_safe += len(text)
        self._unsent += text

    def _send(self, end: int) -> str:
        num_chars = end - self._num_sent
        self._num_sent = end
        sent, self._unsent = self._unsent[:num_chars], self._unsent[num_chars:]
        return sent


def _cut(pending: _Pending, num_chars: int) -> TokenSpan:
    """The token up to its `num_chars`-th character."""
    span, before = pending.span, pending.before
    for size in range(1, len(span.data) + 1):
        text, _ = utf_8_decode(before + span.data[:size], "replace", False)
        if len(text) >= num_chars:
            return TokenSpan(span.token_id, span.data[:size], span.offset)
    return span
