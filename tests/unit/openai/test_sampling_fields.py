from __future__ import annotations

import pytest

from inference.domain.requests import SamplingParams
from inference.domain.sampling import DEFAULT_STAGES, SamplerStage
from tests.unit.openai.bodies import chat, chat_refusal, completion, completion_refusal


def test_repeat_penalty_has_two_names_that_must_agree() -> None:
    assert chat(repeat_penalty=1.1).sampling.repeat_penalty == 1.1
    assert chat(repetition_penalty=1.2).sampling.repeat_penalty == 1.2
    assert completion(repetition_penalty=1.2, repeat_penalty=1.2).sampling.repeat_penalty == 1.2
    assert chat(repetition_penalty=None, repeat_penalty=1.3).sampling.repeat_penalty == 1.3
    assert chat_refusal(repeat_penalty=1.1, repetition_penalty=1.2).param == "repetition_penalty"


def test_logit_bias_is_pairs_of_token_ids_and_numbers() -> None:
    assert chat(logit_bias={"5": 1, "0": -100, "17": 2.5}).sampling.logit_bias == (
        (5, 1.0),
        (0, -100.0),
        (17, 2.5),
    )
    assert chat(logit_bias={}).sampling.logit_bias == ()
    assert chat(logit_bias=None).sampling.logit_bias is None
    assert len(completion(logit_bias={str(i): 1 for i in range(256)}).sampling.logit_bias) == 256


@pytest.mark.parametrize(
    "bias",
    [
        {"AI": -100},
        {"-1": 5},
        {"+1": 5},
        {"05": 5},
        {"": 5},
        {"1.5": 1},
        {" 5": 1},
        {"5\n": 1},
        {"\u0665": 1},
        {"9" * 11: 1},
        {"5": 100.5},
        {"5": -101},
        {"5": "x"},
        {"5": None},
        {"5": True},
        {"5": [1]},
        {str(i): 1 for i in range(257)},
        [[5, 1]],
        "x",
        5,
        True,
    ],
)
def test_wrong_biases(bias: object) -> None:
    for error in (chat_refusal(logit_bias=bias), completion_refusal(logit_bias=bias)):
        assert (error.param, error.code) == ("logit_bias", "invalid_value")


@pytest.mark.parametrize("value", [-1, 1.0, "3", True, 2**31])
def test_min_tokens_is_a_count(value: object) -> None:
    assert chat(min_tokens=3).min_tokens == 3
    assert completion(min_tokens=None).min_tokens == 0
    assert chat_refusal(min_tokens=value).param == "min_tokens"


SAMPLED_RANGES = {
    "typical_p": ("typ_p", (0, 1, 0.5), (-0.1, 1.1, True, "1")),
    "top_n_sigma": ("top_nsigma", (-1, 0, 2.5), (-1.1, 1001, [])),
    "dynatemp_range": ("dynatemp_range", (0, 2), (-0.1, 2.1)),
    "dynatemp_exponent": ("dynatemp_exponent", (0, 3.5), (-1, 101)),
    "xtc_probability": ("xtc_probability", (0, 1), (-0.1, 1.1)),
    "xtc_threshold": ("xtc_threshold", (0, 1), (-0.1, 1.1)),
    "dry_multiplier": ("dry_multiplier", (0, 0.8, 100), (-1, 101, False)),
    "dry_base": ("dry_base", (1, 1.75), (0.9, 101)),
    "dry_allowed_length": ("dry_allowed_length", (0, 2), (-1, 1.5)),
    "dry_penalty_last_n": ("dry_penalty_last_n", (-1, 0, 64), (-2, 2**31)),
    "mirostat_mode": ("mirostat", (0, 1, 2), (-1, 3, 1.0, True)),
    "mirostat_entropy": ("mirostat_tau", (0, 5.0), (-1, 101)),
    "mirostat_learning_rate": ("mirostat_eta", (0, 0.1), (-0.1, 1.1)),
}


@pytest.mark.parametrize("name", SAMPLED_RANGES)
def test_rarer_numbers_have_ranges_and_aliases(name: str) -> None:
    alias, good, bad = SAMPLED_RANGES[name]
    for key in (name, alias):
        for value in good:
            assert getattr(chat(**{key: value}).sampling, name) == value
            assert getattr(completion(**{key: value}).sampling.resolve({}), name) == value
        for value in bad:
            error = chat_refusal(**{key: value})
            assert (error.param, error.code) == (key, "invalid_value")
    assert chat(**{name: None}).sampling == chat().sampling


def test_nothing_sent_is_the_engines_defaults() -> None:
    assert chat().sampling.resolve({}) == SamplingParams()
    assert chat().sampling.resolve({}).stages is DEFAULT_STAGES
    assert chat(dry={}, xtc={}, samplers=None).sampling.resolve({}) == SamplingParams()
    assert chat(dry=None, xtc=None, dry_sequence_breakers=None).sampling.resolve({}) == SamplingParams()


def test_dry_and_xtc_are_objects_or_flat() -> None:
    dry = {
        "multiplier": 0.8,
        "base": 2,
        "allowed_length": 3,
        "penalty_last_n": -1,
        "sequence_breakers": ["."],
    }
    flat = {f"dry_{name}": value for name, value in dry.items()}
    assert chat(dry=dry).sampling == chat(**flat).sampling == chat(dry=dry, **flat).sampling
    resolved = chat(dry=dry).sampling.resolve({})
    assert (resolved.dry_multiplier, resolved.dry_base, resolved.dry_allowed_length) == (0.8, 2.0, 3)
    assert (resolved.dry_penalty_last_n, resolved.dry_sequence_breakers) == (-1, (".",))
    assert chat(dry={"multiplier": None, "sequence_breakers": []}).sampling.dry_sequence_breakers == ()
    xtc = chat(xtc={"probability": 0.5, "threshold": None}).sampling
    assert (xtc.xtc_probability, xtc.xtc_threshold) == (0.5, None)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"dry": 1}, "dry"),
        ({"dry": {"length": 1}}, "dry.length"),
        ({"dry": {"multiplier": -1}}, "dry.multiplier"),
        ({"dry": {"base": 0.5}}, "dry.base"),
        ({"dry": {"multiplier": 1}, "dry_multiplier": 2}, "dry.multiplier"),
        ({"dry": {"sequence_breakers": ["x"] * 9}}, "dry.sequence_breakers"),
        ({"dry": {"sequence_breakers": ["x" * 16]}}, "dry.sequence_breakers"),
        ({"dry": {"sequence_breakers": ["é" * 8]}}, "dry.sequence_breakers"),
        ({"dry": {"sequence_breakers": [""]}}, "dry.sequence_breakers"),
        ({"dry": {"sequence_breakers": [1]}}, "dry.sequence_breakers"),
        ({"dry": {"sequence_breakers": "x"}}, "dry.sequence_breakers"),
        ({"dry_sequence_breakers": [None]}, "dry_sequence_breakers"),
        ({"xtc": []}, "xtc"),
        ({"xtc": {"chance": 1}}, "xtc.chance"),
        ({"xtc": {"probability": 2}}, "xtc.probability"),
        ({"typ_p": 0.5, "typical_p": 0.6}, "typ_p"),
        ({"samplers": ["top_x"]}, "samplers"),
        ({"samplers": [1]}, "samplers"),
        ({"samplers": "top_k"}, "samplers"),
        ({"samplers": ["temp"] * 17}, "samplers"),
        ({"sampler_sequence": "kz"}, "sampler_sequence"),
        ({"sampler_sequence": "k" * 17}, "sampler_sequence"),
        ({"sampler_sequence": ["k"]}, "sampler_sequence"),
        ({"samplers": ["top_k"], "sampler_sequence": "Z"}, "sampler_sequence"),
    ],
)
def test_wrong_values_are_named(fields: dict[str, object], param: str) -> None:
    assert chat_refusal(**fields).param == param
    assert completion_refusal(**fields).param == param


def test_the_order_of_stages() -> None:
    stage = SamplerStage
    asked = ["temp", "top_k", "typ_p", "top_nsigma", "penalties"]
    expected = (stage.TEMPERATURE, stage.TOP_K, stage.TYPICAL_P, stage.TOP_N_SIGMA, stage.PENALTIES)
    assert chat(samplers=asked).sampling.stages == expected
    assert chat(sampler_sequence="edskypmxt").sampling.stages == DEFAULT_STAGES
    assert chat(sampler_sequence="tk").sampling.stages == (stage.TEMPERATURE, stage.TOP_K)
    assert chat(sampler_sequence="tk", samplers=["min_p"]).sampling.stages == (stage.MIN_P,)
    assert chat(samplers=[]).sampling.resolve({}).stages == ()


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"samplers": ["top_k"], "top_p": 0.5}, "top_p"),
        ({"samplers": ["top_k"], "temperature": 0}, "temperature"),
        ({"samplers": [], "min_p": 0.2}, "min_p"),
        ({"sampler_sequence": "kpt", "repetition_penalty": 1.2}, "repetition_penalty"),
        ({"sampler_sequence": "kpt", "dry": {"multiplier": 1}}, "dry.multiplier"),
        ({"samplers": ["temp"], "xtc": {"probability": 0.5}}, "xtc.probability"),
        ({"mirostat_mode": 2, "top_k": 5}, "top_k"),
        ({"mirostat": 1, "typ_p": 0.5}, "typ_p"),
        ({"mirostat": 1, "samplers": ["temp"]}, "mirostat"),
        ({"mirostat_mode": 1, "sampler_sequence": "t"}, "mirostat_mode"),
        ({"mirostat_mode": 1, "temperature": 0}, "mirostat_mode"),
        ({"dynatemp_range": 0.5, "temperature": 0}, "dynatemp_range"),
    ],
)
def test_what_would_be_without_effect_is_refused(fields: dict[str, object], param: str) -> None:
    assert chat_refusal(**fields).param == param


def test_neutral_values_are_never_in_the_way() -> None:
    neutral = {
        "top_p": 1,
        "top_k": 0,
        "min_p": 0,
        "typical_p": 1,
        "top_nsigma": -1,
        "xtc_probability": 0,
        "dry_multiplier": 0,
        "repeat_penalty": 1,
        "temperature": 1,
    }
    assert chat(samplers=[], **neutral).sampling.stages == ()
    mirostat = chat(mirostat_mode=2, presence_penalty=0.5, **neutral).sampling
    assert (mirostat.mirostat_mode, mirostat.presence_penalty) == (2, 0.5)
