"""Most policies do not match most of the time, and asking each costs more than its condition: so the
conditions are asked together first, by one expression that is false exactly where all of them are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from hooks.conditions import Condition, ConditionFailed, Context, conditions_joined
from hooks.exchange.policy_set import CompiledPolicy

MIN_SCREENED, MAX_SCREENED = 3, 32


def screened(
    policies: Sequence[CompiledPolicy], context: Context
) -> Iterator[tuple[tuple[CompiledPolicy, ...], bool]]:
    """The policies in their order, in pieces, each with whether none of the piece matches or fails. Where
    that is not so, nothing is said about any one of them."""
    for start in range(0, len(policies), MAX_SCREENED):
        piece = tuple(policies[start : start + MAX_SCREENED])
        screen = _screen(piece)
        yield piece, screen is not None and _is_false(screen, context)


def _is_false(screen: Condition, context: Context) -> bool:
    try:
        return not context.holds(screen)
    except ConditionFailed:
        return False


@lru_cache(maxsize=256)
def _screen(policies: tuple[CompiledPolicy, ...]) -> Condition | None:
    """Compiled when the piece is first asked (a millisecond or two), kept while it is."""
    conditions = [one.condition for one in policies if one.condition is not None and not one.is_broken]
    if len(conditions) < max(MIN_SCREENED, len(policies)):
        return None
    return conditions_joined(conditions)
