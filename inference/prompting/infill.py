"""A prompt for what is missing between two texts, as models of code were taught to read it.

The order is that of llama.cpp's server (tools/server/server-common.cpp, format_prompt_infill), without its
names of projects and files, which nobody has sent:

    BOS prefix-token TEXT BEFORE suffix-token TEXT BEHIND middle-token

Models that have no token for the middle (Codestral) get the text behind first, and answer right behind the
text before: BOS suffix-token TEXT BEHIND prefix-token TEXT BEFORE.
"""

from __future__ import annotations

from collections.abc import Sequence

from inference.domain.tokenizer import InfillTokens


def infill_prompt(tokens: InfillTokens, before: Sequence[int], behind: Sequence[int]) -> tuple[int, ...]:
    """The ids of the whole prompt; `before` and `behind` are the texts' own, without BOS."""
    first, second = (tokens.prefix, *before), (tokens.suffix, *behind)
    if tokens.middle is None:
        return (*tokens.begin, *second, *first)
    return (*tokens.begin, *first, *second, tokens.middle)
