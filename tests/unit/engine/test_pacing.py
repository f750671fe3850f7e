from __future__ import annotations

from inference.engine.pacing import INITIAL_TOKENS, PrefillPacer


def make_pacer(target_step_s: float = 0.2) -> PrefillPacer:
    return PrefillPacer(target_step_s=target_step_s, min_tokens=32, max_tokens=512, max_beside_decodes=256)


def settle(pacer: PrefillPacer, *, fixed_s: float, token_s: float, num_decodes: int = 0) -> int:
    for _ in range(60):
        budget = pacer.budget(num_decodes)
        num_tokens = budget + num_decodes
        pacer.observe(
            num_tokens=num_tokens, num_prefill_tokens=budget, duration_s=fixed_s + token_s * num_tokens
        )
    return pacer.budget(num_decodes)


def test_before_anything_was_measured_it_is_careful() -> None:
    assert make_pacer().budget(0) == INITIAL_TOKENS


def test_a_slow_machine_gets_small_steps() -> None:
    # 1 ms a token: 200 tokens take the target.
    assert 190 <= settle(make_pacer(), fixed_s=0.0, token_s=0.001) <= 200
    assert 180 <= settle(make_pacer(), fixed_s=0.0, token_s=0.001, num_decodes=10) <= 190


def test_a_very_slow_machine_still_makes_progress() -> None:
    assert settle(make_pacer(), fixed_s=0.0, token_s=0.1) == 32


def test_a_fast_machine_fills_the_batch_but_spares_streams() -> None:
    assert settle(make_pacer(), fixed_s=0.0, token_s=0.00001) == 512
    assert settle(make_pacer(), fixed_s=0.0, token_s=0.00001, num_decodes=8) == 256


def test_where_rows_share_a_fixed_cost_it_does_not_stay_small() -> None:
    # A step costs 50 ms whatever is in it: the budget must not settle where that dominates.
    budget = settle(make_pacer(), fixed_s=0.05, token_s=0.001)
    assert 0.17 <= 0.05 + 0.001 * budget <= 0.21


def test_the_ceiling_leaves_room_for_decodes() -> None:
    pacer = PrefillPacer(target_step_s=1, min_tokens=32, max_tokens=64, max_beside_decodes=64)
    assert pacer.budget(60) == 4
    assert pacer.budget(63) == 1


def test_a_few_tokens_or_no_time_teach_nothing() -> None:
    pacer = make_pacer()
    pacer.observe(num_tokens=20, num_prefill_tokens=2, duration_s=5.0)
    pacer.observe(num_tokens=200, num_prefill_tokens=200, duration_s=0.0)
    assert pacer.budget(0) == INITIAL_TOKENS
