"""What an administrator says about the answers of a model, for requests that do not say it themselves.

Defaults fill only what is absent, and never make a request wrong that is right without them: where two
settings cannot be together, the request's own makes the administrator's moot.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from inference.domain.constraint import ConstraintSpec
from inference.openai.protocol import OutputRequest, SamplingRequest

R = TypeVar("R", bound=OutputRequest)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputDefaults:
    """None is what the administrator does not say either.

    `max_tokens` is for requests without a limit, `max_tokens_ceiling` bounds all of them. `constraint` is
    what answers have to be where a request says nothing of that, and `constraint_param` the setting it
    came from.
    """

    sampling: SamplingRequest = field(default_factory=SamplingRequest)
    stop: tuple[str, ...] | None = None
    ignore_eos: bool | None = None
    max_tokens: int | None = None
    max_tokens_ceiling: int | None = None
    constraint: ConstraintSpec | None = None
    constraint_param: str = ""

    def fill(self, request: R, *, service_max_tokens: int) -> R:
        """The request with nothing left out that is said here, and its limit settled; `service_max_tokens`
        holds where nobody has set one."""
        filled = replace(
            request,
            sampling=filled_sampling(request.sampling, self.sampling),
            stop=self.stop if request.stop is None else request.stop,
            ignore_eos=self.ignore_eos if request.ignore_eos is None else request.ignore_eos,
            max_tokens=self._limit(request, service_max_tokens),
            min_tokens=self._below_ceiling(request.min_tokens),
        )
        if self.constraint is None or request.says_form or request.constraint is not None:
            return filled
        return replace(filled, constraint=self.constraint, constraint_param=self.constraint_param)

    def over(self, lower: OutputDefaults) -> OutputDefaults:
        """These, and where they say nothing, those of `lower`."""
        form = lower if self.constraint is None else self
        return OutputDefaults(
            sampling=filled_sampling(self.sampling, lower.sampling),
            stop=lower.stop if self.stop is None else self.stop,
            ignore_eos=lower.ignore_eos if self.ignore_eos is None else self.ignore_eos,
            max_tokens=lower.max_tokens if self.max_tokens is None else self.max_tokens,
            max_tokens_ceiling=(
                lower.max_tokens_ceiling if self.max_tokens_ceiling is None else self.max_tokens_ceiling
            ),
            constraint=form.constraint,
            constraint_param=form.constraint_param,
        )

    def within_vocabulary(self, num_tokens: int) -> OutputDefaults:
        """Without biases for tokens that the model does not have: those cannot be known before it is
        loaded."""
        biases = self.sampling.logit_bias
        if biases is None or all(token_id < num_tokens for token_id, _ in biases):
            return self
        kept = tuple([(token_id, bias) for token_id, bias in biases if token_id < num_tokens])
        return replace(self, sampling=replace(self.sampling, logit_bias=kept))

    def _limit(self, request: OutputRequest, service_max_tokens: int) -> int:
        if request.max_tokens is not None:
            return self._below_ceiling(request.max_tokens)
        # An answer that is to be longer than the administrator's limit makes that one moot.
        own = service_max_tokens if self.max_tokens is None else max(self.max_tokens, request.min_tokens)
        return self._below_ceiling(own)

    def _below_ceiling(self, num_tokens: int) -> int:
        return num_tokens if self.max_tokens_ceiling is None else min(num_tokens, self.max_tokens_ceiling)


def filled_sampling(said: SamplingRequest, own: SamplingRequest) -> SamplingRequest:
    """What was `said`, and the rest from `own`."""
    values: dict[str, Any] = {
        one.name: getattr(own, one.name) if getattr(said, one.name) is None else getattr(said, one.name)
        for one in fields(SamplingRequest)
    }
    if said.stages is not None:
        values["mirostat_mode"] = said.mirostat_mode
    if said.mirostat_mode:
        values["stages"] = said.stages
    if said.temperature == 0:  # greedy: nothing to draw, and nothing that moves the temperature
        values["mirostat_mode"], values["dynatemp_range"] = said.mirostat_mode, said.dynatemp_range
    if said.temperature is None and own.temperature == 0 and (said.mirostat_mode or said.dynatemp_range):
        values["temperature"] = None
    return SamplingRequest(**values)
