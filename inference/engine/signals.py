"""When a hook is to hear how sure the model is.

Asking it after each token would cost a turn of the event loop each time. So the rules are evaluated here, on
the engine thread, and only where one fires is anything told. And a rule is looked at only where it could
fire: when it becomes due, and then again after as many of the tokens that it counts as it lacked.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice

from inference.domain.events import Signals
from inference.domain.signals import MAX_WINDOW_TOKENS, SignalRequest, SignalRule, SignalWindow, TokenSignal

# So far a share may miss its bound by rounding: three of ten tokens are 0.3 of them.
ROUNDING = 1e-9


class _Counted:
    """Tokens of one kind: where they stand among those that were measured, counted from 1, and how many there
    have been in all. With `look_at` of them one of the rules that count them, and are due, could fire."""

    __slots__ = ("look_at", "places", "rules", "total")

    def __init__(self) -> None:
        self.places: list[int] = []
        self.total = 0
        self.look_at: float = math.inf
        self.rules: list[_RuleWatch] = []

    def forget_early(self) -> None:
        """No window reaches back so far."""
        del self.places[:-MAX_WINDOW_TOKENS]

    def take_back(self, place: int) -> None:
        """The token at `place`, the last one of all, is gone."""
        if self.places and self.places[-1] == place:
            self.places.pop()
            self.total -= 1

    def num_from(self, place: int) -> int:
        return len(self.places) - bisect_left(self.places, place)


class _RuleWatch:
    """One rule. `due_at` is from how many decoded tokens on its window may be told again, `told_at` with how
    many it was told last. Before there are `high_at` or `repeated_at` tokens of a kind, it lacks some.
    """

    __slots__ = ("due_at", "high", "high_at", "place", "repeated", "repeated_at", "rule", "told_at")

    def __init__(self, place: int, rule: SignalRule, high: _Counted, repeated: _Counted) -> None:
        self.place = place
        self.rule = rule
        self.high = high
        self.repeated = repeated
        self.told_at = 0
        self.due_at = max(rule.min_decoded, 1)
        self.high_at: float = 0
        self.repeated_at: float = 0

    def fires(self, *, num_measured: int, num_decoded: int) -> bool:
        rule = self.rule
        # Taken back and drawn anew it is not told again: a hook that always injects would never end.
        if num_decoded <= self.told_at:
            return False
        if rule.every_tokens and num_decoded % rule.every_tokens == 0:
            return True
        if num_decoded < self.due_at:
            return False
        if self.high.total < self.high_at and self.repeated.total < self.repeated_at:
            return False
        size = min(rule.window_tokens, num_measured)
        begin = num_measured - size + 1
        num_lacking = math.ceil(rule.min_high_share * size - ROUNDING) - self.high.num_from(begin)
        num_repeats_lacking = rule.min_repetitions - self.repeated.num_from(begin + 1)
        if num_lacking <= 0 or num_repeats_lacking <= 0:
            return True
        can_be_high = rule.min_high_share <= 1
        can_repeat = rule.min_repetitions < rule.window_tokens
        self.high_at = self.high.total + num_lacking if can_be_high else math.inf
        self.repeated_at = self.repeated.total + num_repeats_lacking if can_repeat else math.inf
        return False

    def note_told(self, num_decoded: int) -> None:
        self.told_at = num_decoded
        self.due_at = max(self.due_at, num_decoded + max(self.rule.min_between, 1))
        self.high_at = self.repeated_at = 0

    def next_look(self, num_decoded: int) -> float:
        """With how many decoded tokens it may fire whatever they are."""
        every = self.rule.every_tokens
        multiple = num_decoded - num_decoded % every + every if every else math.inf
        return min(multiple, self.due_at) if self.due_at > num_decoded else multiple


class SignalWatch:
    """The signals of one sequence, and what of them is to be told. Belongs to the engine thread.

    `is_over` when there will never be anything to tell: then its rows need not be measured any more.
    """

    __slots__ = (
        "_bounds",
        "_history",
        "_last_token_id",
        "_next_look",
        "_num_decoded",
        "_num_measured",
        "_repeated",
        "_rules",
        "_wants_first",
        "_wants_hold",
        "is_over",
    )

    def __init__(self, request: SignalRequest) -> None:
        self._wants_first = request.wants_first_token
        self._wants_hold = request.wants_hold
        longest = max([rule.window_tokens for rule in request.rules], default=0)
        self._history: deque[TokenSignal] = deque(maxlen=longest)
        self._num_decoded = 0
        self._num_measured = 0
        self._last_token_id: int | None = None
        self._repeated = _Counted()
        # Rising, so that a token that is below one bound is below all that follow.
        self._bounds = [(bound, _Counted()) for bound in sorted({one.high_entropy for one in request.rules})]
        high = dict(self._bounds)
        self._rules = [
            _RuleWatch(place, rule, high[rule.high_entropy], self._repeated)
            for place, rule in enumerate(request.rules)
        ]
        for watch in self._rules:
            watch.high.rules.append(watch)
            self._repeated.rules.append(watch)
        self._next_look = self._find_next_look()
        self.is_over = not self._wants_first and not self._rules

    def observe(
        self, token_id: int, measured: TokenSignal | None, now_ts: float, *, has_more: bool
    ) -> Signals | None:
        """The next token was drawn, as sure as was `measured` (None: not known). What is to be told
        now; it is held only where it `has_more` tokens to come."""
        self._num_decoded += 1
        if measured is None:
            self._last_token_id = None
            return None
        windows = self._count(token_id, measured) if self._rules else ()
        if self._wants_first:
            self._wants_first = False
            self.is_over = not self._rules
            return self._signals(measured, windows, now_ts, has_more=has_more)
        return self._signals(windows[0], windows[1:], now_ts, has_more=has_more) if windows else None

    def _signals(
        self,
        signal: TokenSignal | SignalWindow,
        others: tuple[SignalWindow, ...],
        now_ts: float,
        *,
        has_more: bool,
    ) -> Signals:
        is_held = self._wants_hold and has_more
        return Signals(signal, self._num_decoded, is_held=is_held, at_ts=now_ts, others=others)

    def _count(self, token_id: int, measured: TokenSignal) -> tuple[SignalWindow, ...]:
        """Add a token to the windows; those whose rules fire."""
        place = self._num_measured = self._num_measured + 1
        self._history.append(measured)
        if not place % MAX_WINDOW_TOKENS:
            for counted in self._all_counted():
                counted.forget_early()
        looks_at_all = self._num_decoded >= self._next_look
        if token_id == self._last_token_id:
            repeated = self._repeated
            repeated.places.append(place)
            repeated.total += 1
            looks_at_all = looks_at_all or repeated.total >= repeated.look_at
        self._last_token_id = token_id
        entropy = measured.entropy
        looks_at: list[_RuleWatch] = []
        for bound, high in self._bounds:
            if entropy <= bound:
                break
            high.places.append(place)
            high.total += 1
            if high.total >= high.look_at:
                looks_at += high.rules
        if looks_at_all:
            return self._look(self._rules, self._all_counted())
        return self._look(looks_at, {watch.high for watch in looks_at}) if looks_at else ()

    def _all_counted(self) -> list[_Counted]:
        return [self._repeated, *(high for _, high in self._bounds)]

    def _look(self, rules: Sequence[_RuleWatch], counted: Iterable[_Counted]) -> tuple[SignalWindow, ...]:
        """Those of `rules` that fire; `counted` is what they count."""
        num_measured, num_decoded = self._num_measured, self._num_decoded
        fired = [one for one in rules if one.fires(num_measured=num_measured, num_decoded=num_decoded)]
        for watch in fired:
            watch.note_told(num_decoded)
        if fired or num_decoded >= self._next_look:
            self._next_look = self._find_next_look()
        # Who is not due is looked at when it is.
        for kind in counted:
            due = [one for one in kind.rules if one.due_at <= num_decoded]
            if kind is self._repeated:
                kind.look_at = min([one.repeated_at for one in due], default=math.inf)
            else:
                kind.look_at = min([one.high_at for one in due], default=math.inf)
        return self._windows(fired) if fired else ()

    def _find_next_look(self) -> float:
        return min([watch.next_look(self._num_decoded) for watch in self._rules], default=math.inf)

    def _windows(self, fired: Sequence[_RuleWatch]) -> tuple[SignalWindow, ...]:
        """One for all that have the same size and bound, in the order of the rules."""
        groups: dict[tuple[int, float], list[_RuleWatch]] = {}
        for watch in sorted(fired, key=lambda one: one.place):
            groups.setdefault((watch.rule.window_tokens, watch.rule.high_entropy), []).append(watch)
        return tuple([self._window(size, watches) for (size, _), watches in groups.items()])

    def _window(self, window_tokens: int, watches: list[_RuleWatch]) -> SignalWindow:
        num_tokens = min(window_tokens, self._num_measured)
        begin = self._num_measured - num_tokens + 1
        last = list(islice(self._history, len(self._history) - num_tokens, None))
        entropies, margins = [one.entropy for one in last], [one.margin for one in last]
        return SignalWindow(
            num_tokens=num_tokens,
            mean_entropy=sum(entropies) / num_tokens,
            max_entropy=max(entropies),
            mean_margin=sum(margins) / num_tokens,
            min_margin=min(margins),
            num_high_entropy=watches[0].high.num_from(begin),
            num_repetitions=self._repeated.num_from(begin + 1),
            rules=tuple([watch.place for watch in watches]),
        )

    def take_back(self) -> None:
        """The token that signals were told with last is thrown away, and what comes does not follow it."""
        self._num_decoded -= 1
        self._last_token_id = None
        if not self._rules:
            return
        self._history.pop()
        for counted in self._all_counted():
            counted.take_back(self._num_measured)
        self._num_measured -= 1
        self._next_look = self._find_next_look()

    def __repr__(self) -> str:
        return f"<SignalWatch of {len(self._rules)} rules, {self._num_decoded} tokens seen>"
