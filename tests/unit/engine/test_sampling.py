from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection
from dataclasses import replace

import numpy as np
import pytest

from inference.domain.requests import SamplingParams
from inference.domain.sampling import SamplerStage
from inference.engine.llama.sampling import Sampler, draw_tokens, take_forced
from inference.engine.plan import NOTHING_DRAWN

NUM_TOKENS = 12_000
NEUTRAL = SamplingParams(temperature=1.0, top_p=1.0, top_k=0, min_p=0.0)


def make_logits(rows: int = 1, spread: float = 3.0, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((rows, NUM_TOKENS)) * spread).astype(np.float32)


def allowed_by_definition(row: np.ndarray, params: SamplingParams) -> dict[int, float]:
    """What may be drawn and how likely, step by step as the words say, in double precision."""
    ids = np.lexsort((np.arange(len(row)), -row))
    values = row[ids].astype(np.float64)
    if params.top_k:
        ids, values = ids[: params.top_k], values[: params.top_k]
    likely = np.exp(values - values[0])
    likely /= likely.sum()
    if params.top_p < 1:
        keep = max(int(np.searchsorted(likely.cumsum(), params.top_p)) + 1, 1)
        ids, values = ids[:keep], values[:keep]
    if params.min_p > 0:
        keep = max(int((values >= values[0] + math.log(params.min_p)).sum()), 1)
        ids, values = ids[:keep], values[:keep]
    weights = np.exp((values - values[0]) / params.temperature)
    return dict(zip(ids.tolist(), (weights / weights.sum()).tolist(), strict=True))


CASES = {
    "default": SamplingParams(),
    "neutral": NEUTRAL,
    "hot": SamplingParams(temperature=2.5, top_p=1.0, top_k=0, min_p=0.0),
    "cold": SamplingParams(temperature=0.05, top_p=1.0, top_k=0, min_p=0.0),
    "top_k": SamplingParams(temperature=1.0, top_p=1.0, top_k=5, min_p=0.0),
    "top_k 1": SamplingParams(temperature=1.0, top_p=1.0, top_k=1, min_p=0.0),
    "large top_k": SamplingParams(temperature=1.0, top_p=1.0, top_k=3000, min_p=0.0),
    "large top_k, top_p": SamplingParams(temperature=1.0, top_p=0.5, top_k=3000, min_p=0.0),
    "top_k beyond the vocabulary": SamplingParams(temperature=1.0, top_p=1.0, top_k=10**6, min_p=0.0),
    "top_p": SamplingParams(temperature=1.0, top_p=0.6, top_k=0, min_p=0.0),
    "top_p 0": SamplingParams(temperature=1.0, top_p=0.0, top_k=0, min_p=0.0),
    "narrow top_p 0": SamplingParams(temperature=1.0, top_p=0.0, top_k=40, min_p=0.0),
    "min_p": SamplingParams(temperature=1.0, top_p=1.0, top_k=0, min_p=0.02),
    "min_p 1": SamplingParams(temperature=1.0, top_p=1.0, top_k=0, min_p=1.0),
    "top_p and min_p": SamplingParams(temperature=1.5, top_p=0.7, top_k=0, min_p=0.2),
    "all": SamplingParams(temperature=0.7, top_p=0.8, top_k=20, min_p=0.1),
}


@pytest.mark.parametrize("params", CASES.values(), ids=CASES.keys())
def test_tokens_are_drawn_from_what_the_words_say_as_often_as_they_say(params: SamplingParams) -> None:
    logits = make_logits()
    expected = allowed_by_definition(logits[0], params)
    sampler = Sampler(SamplingParams(**{**_fields(params), "seed": 11}))
    num_draws = 800
    counts = Counter(draw_tokens(logits.copy(), [sampler])[0] for _ in range(num_draws))
    # At the border of a set, float32 may see two nearly equal tokens the other way round.
    strangers = counts.keys() - expected.keys()
    assert len(strangers) <= 1
    likely = sorted(expected, key=lambda one: -expected[one])[:5]
    for token_id in likely:
        share = expected[token_id]
        spread = math.sqrt(share * (1 - share) / num_draws)
        assert abs(counts[token_id] / num_draws - share) < 5 * spread + 1e-9, token_id


def _fields(params: SamplingParams) -> dict[str, float | int | None]:
    return {name: getattr(params, name) for name in SamplingParams.__slots__}


@pytest.mark.parametrize("params", CASES.values(), ids=CASES.keys())
def test_a_row_is_drawn_alike_alone_and_in_company(params: SamplingParams) -> None:
    logits = make_logits(rows=4)
    seeded = SamplingParams(**{**_fields(params), "seed": 3})
    alone = [draw_tokens(logits[row : row + 1].copy(), [Sampler(seeded)])[0] for row in range(4)]
    assert draw_tokens(logits.copy(), [Sampler(seeded) for _ in range(4)]) == alone
    mixed = [Sampler(SamplingParams(temperature=0.0)), *[Sampler(seeded) for _ in range(3)]]
    assert draw_tokens(logits.copy(), mixed)[1:] == alone[1:]


def test_greedy_takes_the_best_and_the_lowest_id_of_equals() -> None:
    logits = make_logits(rows=2)
    logits[0, [700, 300, 11999]] = 50.0
    logits[1, 2345] = 50.0
    greedy = SamplingParams(temperature=0.0)
    assert draw_tokens(logits, [Sampler(greedy), Sampler(greedy)]) == [300, 2345]


def test_a_seed_repeats_itself_and_0_is_one() -> None:
    logits = make_logits(spread=1.0)

    def draw(seed: int | None) -> list[int]:
        sampler = Sampler(SamplingParams(seed=seed))
        return [draw_tokens(logits.copy(), [sampler])[0] for _ in range(12)]

    assert draw(0) == draw(0)
    assert draw(0) != draw(1)
    assert draw(None) != draw(None)
    assert draw(2**63) == draw(2**63)


def test_sequences_do_not_share_their_random_state() -> None:
    logits = make_logits(rows=2, spread=1.0)
    first = Sampler(SamplingParams(seed=5))
    lonely = [draw_tokens(logits[:1].copy(), [first])[0] for _ in range(8)]
    again, other = Sampler(SamplingParams(seed=5)), Sampler(SamplingParams(seed=6))
    together = [draw_tokens(logits.copy(), [again, other])[0] for _ in range(8)]
    assert together == lonely


def test_penalties_count_generated_tokens() -> None:
    logits = np.zeros((1, NUM_TOKENS), dtype=np.float32)
    logits[0, :3] = 10.0, 9.5, 8.0
    params = SamplingParams(temperature=0.0, presence_penalty=0.2, frequency_penalty=0.4)
    sampler = Sampler(params)
    # 10, then 9.4; 9.5, then 8.9; 10 - 0.2 - 0.8 = 9.0; …
    assert [draw_tokens(logits.copy(), [sampler])[0] for _ in range(4)] == [0, 1, 0, 0]
    with_prompt_alone = Sampler(params)
    assert draw_tokens(logits.copy(), [with_prompt_alone]) == [0]


def test_negative_penalties_encourage() -> None:
    logits = np.zeros((1, NUM_TOKENS), dtype=np.float32)
    logits[0, :2] = 1.0, 0.9
    sampler = Sampler(SamplingParams(temperature=0.0, presence_penalty=-2.0))
    assert [draw_tokens(logits.copy(), [sampler])[0] for _ in range(3)] == [0, 0, 0]


def test_the_repeat_penalty_sees_the_prompt() -> None:
    logits = np.zeros((1, NUM_TOKENS), dtype=np.float32)
    logits[0, :3] = 10.0, 9.5, 8.0
    sampler = Sampler(SamplingParams(temperature=0.0, repeat_penalty=1.1), prompt_token_ids=(0, 77))
    # 10 / 1.1 = 9.09 from the start; then 9.5 / 1.1 = 8.6.
    assert [draw_tokens(logits.copy(), [sampler])[0] for _ in range(3)] == [1, 0, 0]


@pytest.mark.parametrize("params", [SamplingParams(temperature=0.0), SamplingParams(), NEUTRAL])
def test_a_bias_is_added_and_only_for_its_sequence(params: SamplingParams) -> None:
    logits = np.zeros((2, NUM_TOKENS), dtype=np.float32)
    logits[:, 5] = 60.0
    biased = Sampler(replace(params, logit_bias=((5, -100.0), (9, 80.0))))
    assert draw_tokens(logits, [biased, Sampler(params)]) == [9, 5]


def test_a_bias_shifts_the_chances_by_as_much() -> None:
    logits = np.full((1, NUM_TOKENS), -100.0, dtype=np.float32)
    logits[0, :2] = 0.0
    sampler = Sampler(replace(NEUTRAL, seed=3, logit_bias=((1, math.log(3)),)))
    counts = Counter(draw_tokens(logits.copy(), [sampler])[0] for _ in range(2000))
    assert counts[1] / 2000 == pytest.approx(0.75, abs=0.04)


@pytest.mark.parametrize("params", [SamplingParams(temperature=0.0), SamplingParams(), NEUTRAL])
def test_bans_can_end_after_some_tokens(params: SamplingParams) -> None:
    logits = np.zeros((1, NUM_TOKENS), dtype=np.float32)
    logits[0, [5, 6]] = 80.0, 40.0
    sampler = Sampler(params, banned_token_ids=np.array([5]), num_banned_draws=3)
    assert [draw_tokens(logits.copy(), [sampler])[0] for _ in range(5)] == [6, 6, 6, 5, 5]


@pytest.mark.parametrize("params", [SamplingParams(temperature=0.0), SamplingParams(), NEUTRAL])
def test_banned_tokens_are_never_drawn(params: SamplingParams) -> None:
    logits = np.zeros((1, NUM_TOKENS), dtype=np.float32)
    logits[0, [5, 6]] = 40.0, 39.0
    sampler = Sampler(params, banned_token_ids=np.array([5]))
    assert {draw_tokens(logits.copy(), [sampler])[0] for _ in range(20)} == {6}


@pytest.mark.parametrize("params", [SamplingParams(temperature=0.0), SamplingParams(), NEUTRAL])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_logits_that_are_no_numbers_draw_nothing_and_harm_nobody(
    params: SamplingParams, value: float
) -> None:
    logits = make_logits(rows=3)
    logits[1] = value
    tokens = draw_tokens(logits, [Sampler(params) for _ in range(3)])
    assert tokens[1] == NOTHING_DRAWN
    assert tokens[0] >= 0
    assert tokens[2] >= 0


@pytest.mark.parametrize("temperature", [1e-9, 1e-3, 100.0])
@pytest.mark.parametrize("top_k", [0, 40])
def test_extreme_temperatures_stay_finite(temperature: float, top_k: int) -> None:
    logits = make_logits(rows=2, spread=30.0)
    params = SamplingParams(temperature=temperature, top_k=top_k, top_p=1.0, min_p=0.0)
    tokens = draw_tokens(logits.copy(), [Sampler(params), Sampler(params)])
    assert all(0 <= token_id < NUM_TOKENS for token_id in tokens)
    if temperature < 1e-6:
        assert tokens == logits.argmax(axis=1).tolist()


def test_a_tiny_vocabulary_works_too() -> None:
    logits = np.array([[1.0, 5.0, 2.0]], dtype=np.float32)
    for params in CASES.values():
        assert draw_tokens(logits.copy(), [Sampler(params)])[0] in (0, 1, 2)


def test_what_is_drawn_does_not_depend_on_how_many_rows_are_drawn_at_once() -> None:
    rows = make_logits(8)
    params = [SamplingParams(seed=n, top_k=3 + 3 * n, temperature=0.5 + 0.1 * n) for n in range(len(rows))]
    together = draw_tokens(rows.copy(), [Sampler(one) for one in params])
    alone = [
        draw_tokens(row[np.newaxis].copy(), [Sampler(one)])[0] for row, one in zip(rows, params, strict=True)
    ]
    assert together == alone


class OnlySome:
    """A constraint that takes these tokens, and after so many of them only the end."""

    def __init__(self, allowed: Collection[int], *, max_tokens: int = 1000, end: int = 0) -> None:
        self.allowed = set(allowed)
        self.num_left = max_tokens
        self.end = end
        self.taken: list[int] = []
        self.num_masks = 0

    @property
    def is_ended(self) -> bool:
        return self.num_left <= 0

    def accepts(self, token_id: int) -> bool:
        return token_id == self.end if self.is_ended else token_id in self.allowed

    def mask(self) -> np.ndarray:
        self.num_masks += 1
        mask = np.zeros(NUM_TOKENS, dtype=np.bool_)
        mask[[self.end] if self.is_ended else sorted(self.allowed)] = True
        return mask

    def advance(self, token_id: int) -> None:
        assert self.accepts(token_id)
        self.taken.append(token_id)
        self.num_left -= 1

    def forced_tokens(self, max_tokens: int) -> tuple[int, ...]:
        return tuple(self.allowed)[:max_tokens] if len(self.allowed) == 1 else ()


STAGED = {
    "stages": SamplingParams(typical_p=0.9, stages=(SamplerStage.TYPICAL_P, SamplerStage.TEMPERATURE)),
    "mirostat": SamplingParams(mirostat_mode=2),
}


@pytest.mark.parametrize("params", [*CASES.values(), *STAGED.values()], ids=[*CASES, *STAGED])
def test_what_a_constraint_forbids_is_never_drawn(params: SamplingParams) -> None:
    logits = make_logits(6)
    allowed = set(range(100, 130))
    constraint = OnlySome(allowed)
    samplers = [Sampler(replace(params, seed=n), constraint=constraint if n % 2 else None) for n in range(6)]
    free = draw_tokens(logits.copy(), [Sampler(replace(params, seed=n)) for n in range(6)])
    drawn = draw_tokens(logits.copy(), samplers)
    assert drawn[0::2] == free[0::2]
    assert allowed.issuperset(drawn[1::2])
    assert constraint.taken == drawn[1::2]


def test_a_token_that_is_allowed_costs_no_mask() -> None:
    logits = make_logits(1)
    best = int(logits[0].argmax())
    constraint = OnlySome({best})
    assert draw_tokens(logits, [Sampler(SamplingParams(temperature=0), constraint=constraint)]) == [best]
    assert constraint.num_masks == 0


def test_greedy_takes_the_best_that_is_allowed() -> None:
    logits = make_logits(1)
    allowed = [7, 70, 700]
    expected = allowed[int(logits[0, allowed].argmax())]
    sampler = Sampler(SamplingParams(temperature=0), constraint=OnlySome(allowed))
    assert draw_tokens(logits, [sampler]) == [expected]


def test_two_draws_together_have_the_masked_distribution() -> None:
    logits = make_logits(1, spread=1.0)
    logits[0, 10:14] += np.array([9, 8, 8.5, 7], dtype=np.float32)
    masses = np.exp(logits[0, [11, 13]].astype(np.float64))
    share = masses[0] / masses.sum()
    sampler = Sampler(replace(NEUTRAL, seed=1), constraint=OnlySome({11, 13}, max_tokens=10**6))
    drawn = Counter(draw_tokens(logits.copy(), [sampler])[0] for _ in range(4000))
    assert set(drawn) == {11, 13}
    assert abs(drawn[11] / 4000 - share) < 5 * math.sqrt(share * (1 - share) / 4000)


def test_penalties_and_bias_apply_to_the_second_draw_once() -> None:
    logits = make_logits(1, spread=0.1)
    logits[0, 5] = 4.0
    logits[0, 6] = 3.0
    params = SamplingParams(temperature=0, logit_bias=((5, -0.75), (6, 0.5)))
    sampler = Sampler(params, constraint=OnlySome({5, 6, 7}))
    # 3.25 against 3.5; twice the bias would give the same, twice its absence would not.
    assert draw_tokens(logits.copy(), [sampler]) == [6]
    params = SamplingParams(temperature=0, presence_penalty=1.5, repeat_last_n=-1)
    logits[0, 8] = 9.0
    sampler = Sampler(params, constraint=OnlySome({5, 6}))
    drawn = [draw_tokens(logits.copy(), [sampler])[0] for _ in range(4)]
    assert drawn == [5, 6, 5, 5]


@pytest.mark.parametrize("params", [SamplingParams(temperature=0), *STAGED.values()])
def test_a_constraint_that_is_over_ends_the_answer_even_where_its_end_is_banned(
    params: SamplingParams,
) -> None:
    end = 9
    sampler = Sampler(
        params, banned_token_ids=np.array([end]), constraint=OnlySome({4}, max_tokens=1, end=end)
    )
    assert [draw_tokens(make_logits(1), [sampler])[0] for _ in range(2)] == [4, end]


@pytest.mark.parametrize("params", [SamplingParams(temperature=0), NEUTRAL, *STAGED.values()])
def test_where_nothing_is_left_nothing_is_drawn(params: SamplingParams) -> None:
    nothing = Sampler(params, constraint=OnlySome(()))
    banned = Sampler(params, banned_token_ids=np.array([3]), constraint=OnlySome({3}))
    other = Sampler(SamplingParams(temperature=0))
    logits = make_logits(3)
    best = int(logits[2].argmax())
    assert draw_tokens(logits, [nothing, banned, other]) == [NOTHING_DRAWN, NOTHING_DRAWN, best]


def test_forced_tokens_are_taken_up_to_a_limit_and_never_an_end() -> None:
    constraint = OnlySome({5})
    sampler = Sampler(SamplingParams(), constraint=constraint)
    assert take_forced(sampler, 4, frozenset()) == (5,)
    assert take_forced(sampler, 0, frozenset()) == ()
    assert take_forced(sampler, 4, frozenset({5})) == ()
    assert constraint.taken == [5]
    assert take_forced(Sampler(SamplingParams()), 4, frozenset()) == ()
