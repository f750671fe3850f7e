"""Requests as they are once nothing about them can be wrong any more.

Every value here was checked: ranges, kinds, lengths, text that can be encoded. None means that the
client did not send a field (or sent null), so that a model's own defaults can fill it.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from inference.domain.adapters import AdapterChoice
from inference.domain.constraint import ConstraintSpec
from inference.domain.conversation import Conversation, TemplateOptions
from inference.domain.messages import ChatMessage
from inference.domain.reasoning import ReasoningOptions
from inference.domain.requests import SamplingParams
from inference.domain.sampling import SamplerStage
from inference.domain.speculation import SpeculationChoice
from inference.domain.tools import ToolUse

# llama.cpp reads this seed as "draw one at random" (LLAMA_DEFAULT_SEED in llama.h).
_RANDOM_SEED_OF_LLAMA = 0xFFFF_FFFF

MAX_INT32 = 2**31 - 1
# Text, or token ids that may still lie outside the vocabulary (only the model's tokenizer can tell).
# Neither is empty.
Prompt = str | tuple[int, ...]
# Without a word from anybody: chats end by themselves and may be long; completions are OpenAI's 16.
DEFAULT_CHAT_TOKENS = 4096
DEFAULT_COMPLETION_TOKENS = 16
# OpenAI's ranges, and llama.cpp's for those that OpenAI lacks. A logit divided by a repeat penalty
# near 0 would not be finite.
RANGES: Mapping[str, tuple[float, float]] = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "top_k": (0, MAX_INT32),
    "min_p": (0, 1),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
    "repeat_penalty": (0.01, 100),
    "repeat_last_n": (-1, MAX_INT32),
    "typical_p": (0, 1),
    "top_n_sigma": (-1, 1000),
    "dynatemp_range": (0, 2),
    "dynatemp_exponent": (0, 100),
    "xtc_probability": (0, 1),
    "xtc_threshold": (0, 1),
    "dry_multiplier": (0, 100),
    "dry_base": (1, 100),
    "dry_allowed_length": (0, MAX_INT32),
    "dry_penalty_last_n": (-1, MAX_INT32),
    "mirostat_mode": (0, 2),
    "mirostat_entropy": (0, 100),
    "mirostat_learning_rate": (0, 1),
}
INTEGERS = frozenset({"top_k", "repeat_last_n", "dry_allowed_length", "dry_penalty_last_n", "mirostat_mode"})


def fold_seed(seed: int) -> int:
    """OpenAI's seeds are 64 bits wide and signed, the sampler's are 32 bits: same in, same out.

    0 to 2**32 - 2 stand for themselves; others are hashed (CRC-32 of the eight bytes), so that -1
    and 2**40 are seeds of their own too.
    """
    if 0 <= seed < _RANDOM_SEED_OF_LLAMA:
        return seed
    folded = zlib.crc32(seed.to_bytes(8, "little", signed=seed < 0))
    return folded if folded != _RANDOM_SEED_OF_LLAMA else folded - 1


def choice_seed(seed: int | None, index: int) -> int | None:
    """What a prompt's choice `index` draws from, where the request's own seed, folded, is `seed`: the seeds
    behind it, as vLLM has it, so that a request for one answer with `seed` + `index` has the same. None,
    fresh randomness, stays None."""
    return None if seed is None else (seed + index) % _RANDOM_SEED_OF_LLAMA


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingRequest:
    """What the client said about sampling, and no more."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repeat_penalty: float | None = None
    repeat_last_n: int | None = None
    typical_p: float | None = None
    top_n_sigma: float | None = None
    dynatemp_range: float | None = None
    dynatemp_exponent: float | None = None
    xtc_probability: float | None = None
    xtc_threshold: float | None = None
    dry_multiplier: float | None = None
    dry_base: float | None = None
    dry_allowed_length: int | None = None
    dry_penalty_last_n: int | None = None
    dry_sequence_breakers: tuple[str, ...] | None = None
    mirostat_mode: int | None = None
    mirostat_entropy: float | None = None
    mirostat_learning_rate: float | None = None
    stages: tuple[SamplerStage, ...] | None = None
    logit_bias: tuple[tuple[int, float], ...] | None = None
    seed: int | None = None

    @property
    def said_numbers(self) -> dict[str, float]:
        """Those of RANGES that are said, by name."""
        numbers = {name: getattr(self, name) for name in RANGES}
        return {name: value for name, value in numbers.items() if value is not None}

    def resolve(self, defaults: Mapping[str, float]) -> SamplingParams:
        """The client's values over the model's (`ModelDescription.sampling_defaults`) over the
        service's own (SamplingParams). `defaults` is keyed by the fields' names; it comes from a
        model's file, so what is out of range in it does not count."""
        own = SamplingParams()
        numbers: dict[str, Any] = {}
        for name, (low, high) in RANGES.items():
            value = getattr(self, name)
            if value is None:
                value = defaults.get(name, math.nan)
            if not low <= value <= high:
                value = getattr(own, name)
            numbers[name] = int(value) if name in INTEGERS else float(value)
        return SamplingParams(
            **numbers,
            dry_sequence_breakers=(
                own.dry_sequence_breakers
                if self.dry_sequence_breakers is None
                else self.dry_sequence_breakers
            ),
            stages=own.stages if self.stages is None else self.stages,
            logit_bias=self.logit_bias or (),
            seed=None if self.seed is None else fold_seed(self.seed),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputRequest:
    """What both endpoints share: how to generate, how far, and how to answer.

    `max_tokens` is None where the service's default applies, `num_top_logprobs` where nobody asks
    for logprobs at all. `timeout_s` can only lower the service's own limit.
    `constraint` is what the answer has to be, and `constraint_param` the field that says so; `says_form`
    is also true of requests that ask for plain text in so many words.
    `num_choices` answers are wanted to each prompt. `adapters` None says nothing of them.
    `ignored_parameters` names what nobody defines, cleaned for use in a header, and `field_names` are all
    that the body had. `opts_in_hooks` asks for an administrator's optional policies, too.
    """

    model: str
    sampling: SamplingRequest
    stop: tuple[str, ...] | None = None
    max_tokens: int | None = None
    ignore_eos: bool | None = None
    min_tokens: int = 0
    timeout_s: float | None = None
    num_top_logprobs: int | None = None
    num_choices: int = 1
    is_stream: bool = False
    wants_usage: bool = False
    user: str | None = None
    metadata: Mapping[str, str] | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    constraint: ConstraintSpec | None = None
    constraint_param: str = ""
    says_form: bool = False
    adapters: tuple[AdapterChoice, ...] | None = None
    speculation: SpeculationChoice | None = None
    ignored_parameters: tuple[str, ...] = ()
    opts_in_hooks: bool = False
    field_names: frozenset[str] = frozenset()

    @property
    def num_prompts(self) -> int:
        return 1

    @property
    def token_prompts(self) -> list[tuple[int, ...]]:
        """Those that came as token ids."""
        return []

    @property
    def num_each(self) -> int:
        """Answers that are generated to each prompt; never fewer than are sent."""
        return self.num_choices

    @property
    def num_answers(self) -> int:
        """Choices in the answer, those of the first prompt first."""
        return self.num_prompts * self.num_choices


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest(OutputRequest):
    """POST /v1/chat/completions. At least one message has text in it.

    `wants_raw_text`: the answer's content is all that the model wrote, with nothing told apart in it.
    """

    messages: tuple[ChatMessage, ...]
    tool_use: ToolUse = field(default_factory=ToolUse)
    template: TemplateOptions = field(default_factory=TemplateOptions)
    reasoning: ReasoningOptions = field(default_factory=ReasoningOptions)
    wants_raw_text: bool | None = None

    @property
    def conversation(self) -> Conversation:
        """What of it the chat template is given."""
        return Conversation(
            messages=self.messages,
            tool_use=self.tool_use,
            template=self.template,
            reasoning=self.reasoning,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest(OutputRequest):
    """POST /v1/completions. Of each prompt in `prompts`, of which there is at least one, `best_of` answers
    are generated, and the best `num_choices` of them sent. With `is_echo` each begins with its prompt, and
    `max_tokens` may be 0. `suffix` is what comes behind the answer: it is to fit in between."""

    prompts: tuple[Prompt, ...]
    best_of: int = 1
    is_echo: bool = False
    suffix: str | None = None

    @property
    def num_each(self) -> int:
        return self.best_of

    @property
    def num_prompts(self) -> int:
        return len(self.prompts)

    @property
    def token_prompts(self) -> list[tuple[int, ...]]:
        return [prompt for prompt in self.prompts if not isinstance(prompt, str)]
