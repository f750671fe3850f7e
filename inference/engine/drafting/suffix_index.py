"""Prompt lookup: what followed the last time that the text ended as it ends now.

Answers repeat what stands in their prompts (code that is edited, texts that are quoted or shortened) and
themselves. Where the end of the text occurred before, what came behind it there is a good guess of what
comes now, and finding it costs microseconds. (The rules are those of suffix lookup as other servers have it:
a seed of few tokens, the newest 64 places where it stands, the longest match backwards.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

# So many of the places where the seed occurs are looked at, the newest first.
MAX_CANDIDATES = 64
# A longer seed would only find less.
MAX_SEED = 8
# A short match is followed for so many tokens at most, a long one for twice its own length.
SHORTEST_REACH = 4

_TOKEN_BITS = 32
_TOKEN_MASK = (1 << _TOKEN_BITS) - 1


class Proposal(NamedTuple):
    """`token_ids` may come next, because the last `num_matched` tokens were followed by them before."""

    token_ids: tuple[int, ...]
    num_matched: int


class SuffixIndex:
    """The tokens of one sequence, prompt and answer, and where each short run of them ends.

    `min_match` tokens at least must match, and a match is measured up to `max_match`. Adding a token takes
    the same short time however many there are.
    """

    __slots__ = ("_ends", "_key", "_key_mask", "_max_match", "_min_match", "_seed", "_tokens")

    def __init__(self, *, min_match: int = 3, max_match: int = 64) -> None:
        if not 1 <= min_match <= max_match:
            raise ValueError(f"matches of {min_match} to {max_match} tokens make no sense")
        self._min_match = min_match
        self._max_match = max_match
        self._seed = min(min_match, MAX_SEED)
        self._key_mask = (1 << (_TOKEN_BITS * self._seed)) - 1
        self._tokens: list[int] = []
        # The last `seed` tokens as one number; and by such numbers, behind which tokens they stand: as many
        # as there are before what followed, in rising order.
        self._key = 0
        self._ends: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return len(self._tokens)

    def extend(self, token_ids: Iterable[int]) -> None:
        """These follow. A run of tokens counts once something has followed it."""
        tokens, ends, mask, seed = self._tokens, self._ends, self._key_mask, self._seed
        key = self._key
        for token_id in token_ids:
            num_before = len(tokens)
            if num_before >= seed:
                places = ends.get(key)
                if places is None:
                    ends[key] = [num_before]
                else:
                    places.append(num_before)
            tokens.append(token_id)
            key = (key << _TOKEN_BITS | token_id & _TOKEN_MASK) & mask
        self._key = key

    def propose(self, max_tokens: int) -> Proposal | None:
        """What came behind the longest match, at most `max_tokens` of it; of equally long ones, the newest.
        None where nothing matches."""
        tokens = self._tokens
        if max_tokens < 1 or len(tokens) <= self._seed:
            return None
        places = self._ends.get(self._key)
        if places is None:
            return None
        best_place, best_match = 0, 0
        for place in reversed(places[-MAX_CANDIDATES:]):
            match = self._match(place)
            if match > best_match:
                best_place, best_match = place, match
                if match >= self._max_match:
                    break
        if best_match < self._min_match:
            return None
        length = min(max_tokens, max(SHORTEST_REACH, 2 * best_match))
        return Proposal(tuple(tokens[best_place : best_place + length]), best_match)

    def _match(self, place: int) -> int:
        """How many tokens before `place` are as the last ones are; the seed is known to be."""
        tokens = self._tokens
        num_tokens = len(tokens)
        longest = min(place, self._max_match)
        match = self._seed
        while match < longest and tokens[place - match - 1] == tokens[num_tokens - match - 1]:
            match += 1
        return match

    @property
    def tokens(self) -> Sequence[int]:
        """All of them; not to be changed."""
        return self._tokens

    def __repr__(self) -> str:
        return f"<SuffixIndex of {len(self._tokens)} tokens, {len(self._ends)} runs>"
