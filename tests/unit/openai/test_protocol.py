from __future__ import annotations

from inference.domain.requests import SamplingParams
from inference.openai.protocol import SamplingRequest, fold_seed


def test_nothing_sent_is_the_services_defaults() -> None:
    assert SamplingRequest().resolve({}) == SamplingParams()


def test_the_models_defaults_fill_what_was_not_sent() -> None:
    params = SamplingRequest(temperature=0.0, top_k=0).resolve(
        {"temperature": 0.6, "top_k": 20.0, "top_p": 0.9}
    )
    assert params == SamplingParams(temperature=0.0, top_k=0, top_p=0.9)
    resolved = SamplingRequest().resolve({"top_k": 20.0})
    assert resolved.top_k == 20
    assert isinstance(resolved.top_k, int)


def test_what_a_models_file_says_out_of_range_does_not_count() -> None:
    wrong = {"temperature": float("nan"), "top_p": 1.5, "top_k": -1.0, "min_p": float("inf"), "other": 3.0}
    assert SamplingRequest().resolve(wrong) == SamplingParams()


def test_penalties_and_biases_reach_the_engine() -> None:
    sent = SamplingRequest(repeat_last_n=64, logit_bias=((5, 1.0),))
    assert sent.resolve({"repeat_penalty": 1.1, "repeat_last_n": 32.0}) == SamplingParams(
        repeat_penalty=1.1, repeat_last_n=64, logit_bias=((5, 1.0),)
    )


def test_a_neutral_request_stays_neutral() -> None:
    sent = SamplingRequest(temperature=1, top_p=1, top_k=0, min_p=0)
    assert sent.resolve({"top_k": 40}) == SamplingParams(temperature=1.0, top_p=1.0, top_k=0, min_p=0.0)


def test_seeds_fit_the_sampler_and_never_mean_random() -> None:
    assert SamplingRequest().resolve({}).seed is None
    assert SamplingRequest(seed=0).resolve({}).seed == 0
    assert fold_seed(2**32 - 2) == 2**32 - 2
    wide = [-1, -2, 2**32 - 1, 2**32, 2**32 + 1, 2**63 - 1, -(2**63)]
    folded = [fold_seed(seed) for seed in wide]
    assert len(set(folded)) == len(wide)
    assert all(0 <= seed < 2**32 - 1 for seed in folded)
    assert folded == [fold_seed(seed) for seed in wide]
