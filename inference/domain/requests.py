"""What a caller wants from the engine, after validation, templates and tokenizing."""

from __future__ import annotations

from dataclasses import dataclass

from inference.domain.adapters import AppliedAdapter, adapter_namespace
from inference.domain.cache_retention import CacheRetention
from inference.domain.constraint import OutputConstraint
from inference.domain.media_run import MediaRun
from inference.domain.priority import PriorityClass
from inference.domain.sampling import DEFAULT_SEQUENCE_BREAKERS, DEFAULT_STAGES, SamplerStage
from inference.domain.signals import SignalRequest
from inference.domain.speculation import SpeculationRequest


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is drawn from the logits. Validated at the wire, trusted here.

    Only `temperature` 0 is greedy: a neutral request (temperature 1, top_p 1, top_k 0, min_p 0)
    samples from the whole distribution. `seed` None means fresh randomness; 0 is a seed.
    The defaults are those of docs/decisions.md.

    `logit_bias` is added to the logits of these token ids, all of them in the vocabulary.
    `repeat_penalty` (llama.cpp's: positive logits are divided by it, others multiplied; 1 is off)
    sees prompt and generated tokens; presence and frequency penalty see the generated ones, as
    OpenAI's do. All three look back over the last `repeat_last_n` tokens; -1 is all of them, 0
    none.

    `stages` are taken in their order (all of them may be there and do nothing). Mirostat (1 or 2; 0
    is off) takes the place of everything that takes tokens away. `top_n_sigma` up to 0 is off, as
    are 0 of `dynatemp_range`, `xtc_probability` and `dry_multiplier`; a `dry_penalty_last_n` of -1
    looks back over everything.
    """

    temperature: float = 0.8
    top_p: float = 0.95
    top_k: int = 40
    min_p: float = 0.05
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repeat_penalty: float = 1.0
    repeat_last_n: int = -1
    typical_p: float = 1.0
    top_n_sigma: float = -1.0
    dynatemp_range: float = 0.0
    dynatemp_exponent: float = 1.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = 64
    dry_sequence_breakers: tuple[str, ...] = DEFAULT_SEQUENCE_BREAKERS
    mirostat_mode: int = 0
    mirostat_entropy: float = 5.0
    mirostat_learning_rate: float = 0.1
    stages: tuple[SamplerStage, ...] = DEFAULT_STAGES
    logit_bias: tuple[tuple[int, float], ...] = ()
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One sequence to generate: what the engine needs and nothing of the wire.

    `prompt_token_ids` is never empty and leaves room in the context for `max_tokens`, which is
    already clamped. Stop strings are not here: they are matched on text, on the event loop's side.
    Only requests of the same `cache_namespace` share what was computed for their prompts.
    Before `min_tokens` are generated, the model cannot end its answer. `num_top_logprobs` asks how
    likely each token was, and beside it for so many most likely ones; None does not ask. `signals`
    asks how sure the model is, for hooks. Where requests have to wait, the classes of `priority` are
    served in their order, and the users of a class, told apart by `user_id`, fairly. Tokens that the
    `constraint` forbids are never drawn. `media` says in which parts of the prompt the embeddings are
    given, in their order; there, and only there, the ids are below 0. Those of the same `sibling_group`
    ("": none) begin with the same prompt, which is computed once however short it is.
    `num_prompt_logprobs` asks of the prompt's tokens what `num_top_logprobs` asks of the answer's. With
    `max_tokens` 0 nothing is generated: it ends with what was asked of its prompt.
    `adapters` change the model's weights; `cache_namespace` must end with their `adapter_namespace`, since
    what one set has computed is wrong for another. What comes next in a conversation will probably begin
    with the first `prefix_boundary` tokens (0: not known). `cache_retention` says how long what was computed
    may be kept. An answer whose next token does not come within `max_token_gap_s` (None: no limit) fails; the
    first token has no such limit, and time in which the answer stands still for its reader or a hook does not
    count.
    """

    request_id: str
    prompt_token_ids: tuple[int, ...]
    max_tokens: int
    sampling: SamplingParams = SamplingParams()
    ignore_eos: bool = False
    min_tokens: int = 0
    num_top_logprobs: int | None = None
    cache_namespace: str = ""
    signals: SignalRequest | None = None
    user_id: int = 0
    priority: PriorityClass = PriorityClass.NORMAL
    constraint: OutputConstraint | None = None
    media: tuple[MediaRun, ...] = ()
    sibling_group: str = ""
    num_prompt_logprobs: int | None = None
    adapters: tuple[AppliedAdapter, ...] = ()
    prefix_boundary: int = 0
    cache_retention: CacheRetention = CacheRetention.UNSAID
    speculation: SpeculationRequest | None = None
    max_token_gap_s: float | None = None

    def __post_init__(self) -> None:
        if not self.prompt_token_ids:
            raise ValueError("a generation request needs at least one prompt token")
        if self.max_tokens < 0:
            raise ValueError(f"max_tokens must be at least 0, not {self.max_tokens}")
        if self.adapters and not self.cache_namespace.endswith(adapter_namespace(self.adapters)):
            raise ValueError(f"adapters {self.adapters} share the namespace of others")
