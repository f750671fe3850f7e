"""Reading what a body says about sampling, so that nothing of it can be ignored in silence.

The same parameter has several names among servers (llama.cpp's, vLLM's): all of them are read, and
two that contradict each other are refused. A token id can only be checked against a vocabulary
once the model is known; all else is checked here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from inference.domain.errors import InvalidRequest
from inference.domain.sampling import DEFAULT_STAGES, SamplerStage
from inference.openai.fields import Fields, kind_of
from inference.openai.protocol import INTEGERS, RANGES, SamplingRequest

# Clients need a few hundred at most; each entry costs a lookup in every step.
MAX_LOGIT_BIAS_ENTRIES = 256
MAX_LOGIT_BIAS = 100  # OpenAI's

MAX_STAGES = 16
MAX_BREAKERS = 8
MAX_BREAKER_BYTES = 15
MAX_SHOWN_CHARS = 64

# Other names of the same parameters: llama.cpp's, vLLM's.
_ALIASES: Mapping[str, tuple[str, ...]] = {
    "repeat_penalty": ("repetition_penalty",),
    "typical_p": ("typ_p",),
    "top_n_sigma": ("top_nsigma",),
    "mirostat_mode": ("mirostat",),
    "mirostat_entropy": ("mirostat_tau",),
    "mirostat_learning_rate": ("mirostat_eta",),
}
_STAGE_NAMES: Mapping[str, SamplerStage] = {
    **{stage.value: stage for stage in SamplerStage},
    "typ_p": SamplerStage.TYPICAL_P,
    "top_nsigma": SamplerStage.TOP_N_SIGMA,
    "temp": SamplerStage.TEMPERATURE,
}
_STAGE_LETTERS = dict(zip("edskypmxt", DEFAULT_STAGES, strict=True))
# What turns a stage on: parameter, stage, and the value that asks for nothing.
_SWITCHES: tuple[tuple[str, SamplerStage, float], ...] = (
    ("repeat_penalty", SamplerStage.PENALTIES, 1),
    ("presence_penalty", SamplerStage.PENALTIES, 0),
    ("frequency_penalty", SamplerStage.PENALTIES, 0),
    ("dry_multiplier", SamplerStage.DRY, 0),
    ("top_n_sigma", SamplerStage.TOP_N_SIGMA, -1),
    ("top_k", SamplerStage.TOP_K, 0),
    ("typical_p", SamplerStage.TYPICAL_P, 1),
    ("top_p", SamplerStage.TOP_P, 1),
    ("min_p", SamplerStage.MIN_P, 0),
    ("xtc_probability", SamplerStage.XTC, 0),
    ("temperature", SamplerStage.TEMPERATURE, 1),
    ("dynatemp_range", SamplerStage.TEMPERATURE, 0),
)
_BESIDE_MIROSTAT = (SamplerStage.PENALTIES, SamplerStage.DRY, SamplerStage.TEMPERATURE)
# The digits of a 32-bit id, without sign, spaces or leading zeros: two keys are never one token.
_TOKEN_ID = re.compile(r"(0|[1-9][0-9]{0,9})", re.ASCII)


def read_sampling(fields: Fields) -> SamplingRequest:
    """Raises InvalidRequest naming the field, under the name that the client used."""
    numbers = _Numbers()
    for name in RANGES:
        numbers.read(fields, name, (name, *_ALIASES.get(name, ())))
    breakers = _read_dry(fields, numbers)
    _read_xtc(fields, numbers)
    stages = _read_stages(fields)
    _check_effects(numbers, stages)
    return SamplingRequest(
        **numbers.values,
        dry_sequence_breakers=breakers,
        stages=None if stages is None else stages[1],
        logit_bias=_read_logit_bias(fields),
        seed=fields.integer("seed", -(2**63), 2**63 - 1),
    )


class _Numbers:
    """What was sent of RANGES, and under which name, for refusals that speak the client's words."""

    def __init__(self) -> None:
        self._params: dict[str, str] = {}
        self.values: dict[str, Any] = {}

    def read(self, fields: Fields, name: str, aliases: Sequence[str]) -> None:
        """Take the parameter `name` under any of `aliases` in `fields`."""
        low, high = RANGES[name]
        for alias in aliases:
            if name in INTEGERS:
                value: int | float | None = fields.integer(alias, int(low), int(high))
            else:
                value = fields.number(alias, low, high)
            if value is None:
                continue
            if self.values.get(name, value) != value:
                raise fields.fail(alias, f"it says the same as '{self._params[name]}', and the two differ")
            self.values[name] = value
            self._params.setdefault(name, fields.param(alias))

    def refuse(self, name: str, problem: str) -> InvalidRequest:
        param = self._params[name]
        return InvalidRequest(f"Invalid '{param}': {problem}.", param=param)


def _read_dry(fields: Fields, numbers: _Numbers) -> tuple[str, ...] | None:
    """DRY as one object with exactly these members, or flat under llama.cpp's names."""
    flat = _read_breakers(fields, "dry_sequence_breakers")
    given = fields.mapping("dry")
    if given is None:
        return flat
    inner = Fields(given, f"{fields.param('dry')}.")
    for member in ("multiplier", "base", "allowed_length", "penalty_last_n"):
        numbers.read(inner, f"dry_{member}", (member,))
    breakers = _read_breakers(inner, "sequence_breakers")
    _refuse_unknown(inner)
    return flat if breakers is None else breakers


def _read_xtc(fields: Fields, numbers: _Numbers) -> None:
    given = fields.mapping("xtc")
    if given is None:
        return
    inner = Fields(given, f"{fields.param('xtc')}.")
    for member in ("probability", "threshold"):
        numbers.read(inner, f"xtc_{member}", (member,))
    _refuse_unknown(inner)


def _refuse_unknown(fields: Fields) -> None:
    for name in fields.unknown():
        raise fields.fail(name[:MAX_SHOWN_CHARS], "there is no such member")


def _read_breakers(fields: Fields, name: str) -> tuple[str, ...] | None:
    given = fields.array(name)
    if given is None:
        return None
    if len(given) > MAX_BREAKERS:
        raise fields.fail(name, f"it may hold at most {MAX_BREAKERS} strings")
    breakers = []
    for breaker in given:
        if not isinstance(breaker, str):
            raise fields.fail(name, f"expected an array of strings, but got {kind_of(breaker)} in it")
        if not 0 < len(breaker.encode("utf-8", "replace")) <= MAX_BREAKER_BYTES:
            raise fields.fail(name, f"a sequence breaker must have 1 to {MAX_BREAKER_BYTES} bytes")
        breakers.append(breaker)
    return tuple(dict.fromkeys(breakers))


def _read_stages(fields: Fields) -> tuple[str, tuple[SamplerStage, ...]] | None:
    """The name of the field and its stages; `samplers` beats `sampler_sequence`."""
    letters = fields.string("sampler_sequence")
    by_letters: tuple[SamplerStage, ...] | None = None
    if letters is not None:
        if len(letters) > MAX_STAGES or not _STAGE_LETTERS.keys() >= set(letters):
            known = " ".join(_STAGE_LETTERS)
            raise fields.fail("sampler_sequence", f"expected up to {MAX_STAGES} letters of {known}")
        by_letters = tuple(_STAGE_LETTERS[letter] for letter in letters)
    names = fields.array("samplers")
    if names is None:
        return None if by_letters is None else ("sampler_sequence", by_letters)
    if len(names) > MAX_STAGES:
        raise fields.fail("samplers", f"it may hold at most {MAX_STAGES} names")
    stages = []
    for name in names:
        if not isinstance(name, str) or name not in _STAGE_NAMES:
            known = ", ".join(stage.value for stage in SamplerStage)
            raise fields.fail("samplers", f"it may hold the names {known}")
        stages.append(_STAGE_NAMES[name])
    return "samplers", tuple(stages)


def _check_effects(numbers: _Numbers, stages: tuple[str, tuple[SamplerStage, ...]] | None) -> None:
    """Refuse what would be without effect beside other things that were sent."""
    sent = numbers.values
    is_greedy = sent.get("temperature") == 0
    has_mirostat = bool(sent.get("mirostat_mode"))
    if has_mirostat and is_greedy:
        raise numbers.refuse("mirostat_mode", "it needs a temperature above 0")
    if has_mirostat and stages is not None:
        raise numbers.refuse("mirostat_mode", f"it cannot be used with '{stages[0]}'")
    if sent.get("dynatemp_range") and is_greedy:
        raise numbers.refuse("dynatemp_range", "it needs a temperature above 0")
    for name, stage, neutral in _SWITCHES:
        if name not in sent or sent[name] == neutral or (name == "top_n_sigma" and sent[name] <= 0):
            continue
        if has_mirostat and stage not in _BESIDE_MIROSTAT:
            raise numbers.refuse(name, "it has no effect with mirostat, which cuts by itself")
        if stages is not None and stage not in stages[1]:
            raise numbers.refuse(name, f"it has no effect, because '{stages[0]}' lacks '{stage.value}'")


def _read_logit_bias(fields: Fields) -> tuple[tuple[int, float], ...] | None:
    """Token ids and what is added to their logits, as pairs; null says nothing."""
    given = fields.mapping("logit_bias")
    if given is None:
        return None
    if len(given) > MAX_LOGIT_BIAS_ENTRIES:
        raise fields.fail("logit_bias", f"it may have at most {MAX_LOGIT_BIAS_ENTRIES} entries")
    biases = []
    for key, value in given.items():
        if not _TOKEN_ID.fullmatch(key):
            raise fields.fail("logit_bias", "its keys must be token ids, written as decimal numbers")
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not -MAX_LOGIT_BIAS <= value <= MAX_LOGIT_BIAS:  # type: ignore[operator]
            raise fields.fail(
                "logit_bias", f"its values must be numbers between -{MAX_LOGIT_BIAS} and {MAX_LOGIT_BIAS}"
            )
        biases.append((int(key), float(value)))  # type: ignore[arg-type]
    return tuple(biases)
