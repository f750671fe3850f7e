"""Where the time of one answer went, for the caller who wants to know why it took so long."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timings:
    """Intervals in seconds and the tokens that they were spent on.

    `queue_wait_s` is from the submission until the prompt begins to be computed (it has a lane, and
    what another sequence was computing of it is there), `prompt_s` from then to the first token, or
    to the end where there is none, `predicted_s` from the first token to the last.
    `num_prompt_tokens` counts the whole prompt,
    `num_cached_tokens` the part of it that did not have to be computed. `num_drafted_tokens` were guessed
    before the model said them, and `num_accepted_tokens` of them are in the answer.
    """

    num_prompt_tokens: int
    num_predicted_tokens: int
    num_cached_tokens: int = 0
    queue_wait_s: float = 0.0
    prompt_s: float = 0.0
    predicted_s: float = 0.0
    num_drafted_tokens: int = 0
    num_accepted_tokens: int = 0

    @property
    def num_prefilled_tokens(self) -> int:
        """Prompt tokens that were computed for this request."""
        return max(0, self.num_prompt_tokens - self.num_cached_tokens)

    @property
    def prompt_tokens_per_s(self) -> float:
        """Prompt tokens by second, cached ones included; 0 where no time was measured."""
        return self.num_prompt_tokens / self.prompt_s if self.prompt_s > 0 else 0.0

    @property
    def predicted_tokens_per_s(self) -> float:
        """Generated tokens by second; 0 where no time was measured."""
        return self.num_predicted_tokens / self.predicted_s if self.predicted_s > 0 else 0.0
