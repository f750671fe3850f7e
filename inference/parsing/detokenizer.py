"""Bytes of tokens to text, when a character may be spread over several tokens.

A token can end in the middle of a UTF-8 character. Decoding each one alone turns an emoji into
replacement marks; decoding all that was generated again for each token costs the square of the
answer's length. Here the bytes of an unfinished character wait for the next token.
"""

from __future__ import annotations

from codecs import utf_8_decode


class Detokenizer:
    """Decodes one answer, piece by piece; at most three bytes wait at any time.

    Bytes that can never become a character are replaced by U+FFFD as soon as that is certain, so
    that they hold nothing up. The joined results are `all_bytes.decode("utf-8", "replace")`,
    however the bytes were cut.
    """

    def __init__(self) -> None:
        self._waiting = b""

    @property
    def waiting(self) -> bytes:
        """The beginning of a character whose end has not come yet."""
        return self._waiting

    def push(self, piece: bytes) -> str:
        """The text that is complete now; often empty in the middle of a character."""
        if self._waiting:
            piece = self._waiting + piece
        text, num_decoded = utf_8_decode(piece, "replace", False)
        self._waiting = piece[num_decoded:]
        return text

    def flush(self) -> str:
        """The end of the answer: what still waits, as one replacement mark. Empty ever after."""
        waiting, self._waiting = self._waiting, b""
        return waiting.decode("utf-8", "replace")
