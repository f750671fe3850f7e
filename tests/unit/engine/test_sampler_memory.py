"""What a sampler knows of its text when a token of it is thrown away and others are put in."""

from __future__ import annotations

import numpy as np
import pytest

from inference.domain.requests import SamplingParams
from inference.engine.llama.dry import Dry
from inference.engine.llama.penalties import Penalties
from inference.engine.llama.sampling import Sampler, draw_tokens

NUM_TOKENS = 40
PIECES = [bytes([97 + one % 26]) if one % 13 else b"\n" for one in range(NUM_TOKENS)]
ASKED = {
    "repeat": SamplingParams(temperature=0.0, repeat_penalty=1.6),
    "repeat, short": SamplingParams(temperature=0.0, repeat_penalty=1.6, repeat_last_n=3),
    "all, short": SamplingParams(
        temperature=0.0, repeat_penalty=1.3, frequency_penalty=0.7, presence_penalty=-0.4, repeat_last_n=5
    ),
    "frequency": SamplingParams(temperature=0.0, frequency_penalty=0.9),
    "dry": SamplingParams(temperature=0.0, dry_multiplier=2.0, dry_allowed_length=1),
    "dry, short": SamplingParams(
        temperature=0.0, dry_multiplier=2.0, dry_allowed_length=1, dry_penalty_last_n=6
    ),
    "dry, all of it": SamplingParams(
        temperature=0.0, dry_multiplier=2.0, dry_allowed_length=1, dry_penalty_last_n=-1, repeat_penalty=1.2
    ),
}


def sampler(params: SamplingParams, prompt: tuple[int, ...] = (1, 2, 3, 1, 2)) -> Sampler:
    return Sampler(params, prompt_token_ids=prompt, pieces=PIECES)


def later(one: Sampler, rng_seed: int, num_draws: int = 40) -> list[int]:
    """What it draws from rows that are nearly level, so that what it knows decides."""
    rng = np.random.default_rng(rng_seed)
    return [
        draw_tokens((rng.standard_normal((1, NUM_TOKENS)) * 0.5).astype(np.float32), [one])[0]
        for _ in range(num_draws)
    ]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", ASKED)
def test_what_was_taken_back_might_never_have_been(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    said = rng.integers(0, 6, 3 * seed).tolist()
    inserted = tuple(rng.integers(0, 6, 1 + 4 * (seed % 3)).tolist())
    one, other = sampler(ASKED[name]), sampler(ASKED[name])
    for token_id in said:
        one.accept(token_id)
        other.accept(token_id)
    one.accept(int(rng.integers(0, 6)))
    one.take_back()
    one.insert(inserted)
    other.insert(inserted)
    assert later(one, seed) == later(other, seed)


@pytest.mark.parametrize("name", ["repeat", "repeat, short", "dry", "dry, short", "dry, all of it"])
def test_what_is_put_in_is_known_as_a_prompt_is(name: str) -> None:
    text = (5, 7, 5, 7, 13, 5, 7, 5)
    one, other = sampler(ASKED[name], (1, 2, 3)), sampler(ASKED[name], (1, 2, 3, *text))
    one.insert(text[:3])
    one.insert(text[3:])
    assert later(one, 3) == later(other, 3)


def test_words_that_nobody_generated_are_not_made_less_frequent() -> None:
    penalties = Penalties(SamplingParams(frequency_penalty=1.0, presence_penalty=1.0), ())
    penalties.accept(4)
    penalties.insert((4, 5))
    logits = np.zeros(NUM_TOKENS, dtype=np.float32)
    penalties.change(logits)
    assert logits[4] == -2.0
    assert logits[5] == 0.0


def make_memories() -> tuple[Penalties, Dry]:
    repeat = SamplingParams(repeat_penalty=2.0, repeat_last_n=4)
    return Penalties(repeat, (1, 2)), Dry(SamplingParams(dry_multiplier=1.0), (1, 2), PIECES)


def test_a_token_is_taken_back_once() -> None:
    for memory, untouched in zip(make_memories(), make_memories(), strict=True):
        memory.accept(3)
        for _ in range(3):
            memory.take_back()
        row, expected = np.ones(NUM_TOKENS, dtype=np.float32), np.ones(NUM_TOKENS, dtype=np.float32)
        memory.change(row)
        untouched.change(expected)
        assert row.tolist() == expected.tolist()


def test_the_end_of_an_answer_stays_put_off_for_as_many_tokens_as_count() -> None:
    one = Sampler(SamplingParams(temperature=0.0), banned_token_ids=np.array([5]), num_banned_draws=2)
    row = np.zeros((1, NUM_TOKENS), dtype=np.float32)
    row[0, 5] = 9.0
    for _ in range(2):
        assert draw_tokens(row.copy(), [one]) != [5]
    one.take_back()
    one.insert((7, 7, 7))
    assert draw_tokens(row.copy(), [one]) != [5]
    assert draw_tokens(row.copy(), [one]) == [5]
    one.take_back()
    assert draw_tokens(row.copy(), [one]) == [5]


@pytest.mark.parametrize("mode", [1, 2])
def test_mirostat_does_not_learn_from_what_was_thrown_away(mode: int) -> None:
    params = SamplingParams(temperature=1.0, mirostat_mode=mode, seed=3)
    one, other = sampler(params), sampler(params)
    rng = np.random.default_rng(2)
    rows = (rng.standard_normal((8, NUM_TOKENS)) * 3).astype(np.float32)
    draw_tokens(rows[:1].copy(), [one])
    one.take_back()
    # The random state goes on: nothing would be drawn anew if it did not.
    other.uniform()
    for row in rows[1:]:
        assert draw_tokens(row[np.newaxis].copy(), [one]) == draw_tokens(row[np.newaxis].copy(), [other])


def test_a_sampler_without_a_memory_has_nothing_to_take_back() -> None:
    one = sampler(SamplingParams())
    one.take_back()
    one.insert((1, 2))
    assert not one.has_memory
