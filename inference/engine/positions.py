"""How far a sequence has come, in tokens and in positions.

In most models the n-th token stands at position n. Where pictures have places in a plane (M-RoPE), all
rows of one may stand at the same position in time, and what comes behind goes on a few positions
later, however many tokens the picture has. llama.cpp counts positions; everybody else counts tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

from inference.domain.media_run import MediaRun


class PositionMap:
    """Of one sequence, whose `runs` of embeddings are in their order."""

    __slots__ = ("_runs",)

    def __init__(self, runs: Sequence[MediaRun]) -> None:
        self._runs = [run for run in runs if run.grid is not None]

    def position(self, num_tokens: int) -> int:
        """Where the next token stands behind so many; within a picture, where that begins."""
        num_saved = 0
        for run in self._runs:
            if num_tokens < run.end:
                return min(num_tokens, run.start) - num_saved
            num_saved += run.num_saved_positions
        return num_tokens - num_saved

    def num_tokens(self, last_position: int) -> int:
        """How many tokens surely have cells where the last one stands there. A picture that nothing
        follows may be there in part only, which cannot be told: it does not count."""
        num_saved = 0
        for run in self._runs:
            begin = run.start - num_saved
            if last_position < begin:
                break
            if last_position < begin + run.num_positions:
                return run.start
            num_saved += run.num_saved_positions
        return last_position + 1 + num_saved

    def uncut(self, num_tokens: int) -> int:
        """At most so many, none of them within a picture."""
        for run in self._runs:
            if run.start < num_tokens < run.end:
                return run.start
        return num_tokens
