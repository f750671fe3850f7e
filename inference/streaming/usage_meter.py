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
        "num_injected_tokens",
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
        self.num_injected_tokens = 0
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

    def count_injected(self, num_tokens: int) -> None:
        """A hook put them in."""
        self.num_injected_tokens += num_tokens

    @property
    def usage(self) -> Usage | None:
        if self.started_ts is None:
            return None
        return Usage(
            self.num_prompt_tokens,
            self.num_output_tokens,
            cached_tokens=self.num_cached_tokens,
            reasoning_tokens=self.num_reasoning_tokens,
            injected_tokens=self.num_injected_tokens,
        )

    @property
    def usage_so_far(self) -> Usage:
        """Of a request that has its lane; RuntimeError where it has none yet."""
        usage = self.usage
        if usage is None:
            raise RuntimeError("the generation has not started")
        return usage


class SharedPrompt:
    """A prompt that several answers continue, and that is paid for once."""

    __slots__ = ("is_counted", "num_tokens")

    def __init__(self, num_tokens: int) -> None:
        self.num_tokens = num_tokens
        self.is_counted = False


class ChoiceMeter(UsageMeter):
    """Of one of several answers to a request: what it counts is the `whole` request's, too.

    Of a prompt that is shared, what was cached is what the first to start found: the others found what
    that one computed.
    """

    __slots__ = ("_prompt", "_whole")

    def __init__(self, whole: UsageMeter, prompt: SharedPrompt) -> None:
        super().__init__()
        self.num_prompt_tokens = prompt.num_tokens
        self._whole = whole
        self._prompt = prompt

    def start(self, at_ts: float, *, num_cached_tokens: int) -> None:
        super().start(at_ts, num_cached_tokens=num_cached_tokens)
        whole, prompt = self._whole, self._prompt
        if not prompt.is_counted:
            prompt.is_counted = True
            whole.num_cached_tokens += num_cached_tokens
        if whole.started_ts is None:
            whole.started_ts = at_ts

    def count(self, num_tokens: int, at_ts: float, *, num_reasoning: int = 0) -> None:
        super().count(num_tokens, at_ts, num_reasoning=num_reasoning)
        self._whole.count(num_tokens, at_ts, num_reasoning=num_reasoning)

    def count_drafts(self, batch: TokenBatch) -> None:
        super().count_drafts(batch)
        self._whole.count_drafts(batch)

    def count_injected(self, num_tokens: int) -> None:
        super().count_injected(num_tokens)
        self._whole.count_injected(num_tokens)
