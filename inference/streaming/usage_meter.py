"""What one request has used so far, counted as it happens and read whenever somebody wants to know.

A token costs an addition here and nothing else; whoever records progress reads it once a second.
"""

from __future__ import annotations

from inference.domain.events import TokenBatch, Usage


class UsageMeter:
    """Event loop only. `usage` is None until the request has its lane: before, its prompt cost nothing."""

    __slots__ = (
        "first_token_ts",
        "last_token_ts",
        "num_accepted_tokens",
        "num_cached_tokens",
        "num_drafted_tokens",
        "num_output_tokens",
        "num_prompt_tokens",
        "num_reasoning_tokens",
        "started_ts",
    )

    def __init__(self) -> None:
        self.num_prompt_tokens = 0
        self.num_cached_tokens = 0
        self.num_output_tokens = 0
        self.num_reasoning_tokens = 0
        self.num_drafted_tokens = 0
        self.num_accepted_tokens = 0
        self.started_ts: float | None = None
        self.first_token_ts: float | None = None
        self.last_token_ts: float | None = None

    def start(self, at_ts: float, *, num_cached_tokens: int) -> None:
        """It has its lane since `at_ts` (monotonic)."""
        self.started_ts = at_ts
        self.num_cached_tokens = num_cached_tokens

    def count(self, num_tokens: int, at_ts: float, *, num_reasoning: int = 0) -> None:
        """`num_reasoning` of the tokens belong to the model's thinking."""
        if num_tokens and self.first_token_ts is None:
            self.first_token_ts = at_ts
        self.last_token_ts = at_ts
        self.num_output_tokens += num_tokens
        self.num_reasoning_tokens += num_reasoning

    def count_drafts(self, batch: TokenBatch) -> None:
        """Tokens of it had been guessed (`num_drafted` is not 0)."""
        self.num_drafted_tokens += batch.num_drafted
        self.num_accepted_tokens += batch.num_accepted

    @property
    def usage(self) -> Usage | None:
        if self.started_ts is None:
            return None
        return Usage(
            self.num_prompt_tokens,
            self.num_output_tokens,
            cached_tokens=self.num_cached_tokens,
            reasoning_tokens=self.num_reasoning_tokens,
        )
