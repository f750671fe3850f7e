"""When a hook is to hear how sure the model is.

Asking it after each token would cost a turn of the event loop each time. So the rules are evaluated here, on
the engine thread, and only where one fires is anything told. And rules are looked at only where one could
fire: when it becomes due, or where a token is one of those that it counts. Of others a token costs an append.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from itertools import islice

from inference.domain.events import Signals
from inference.domain.signals import MAX_WINDOW_TOKENS, SignalRequest, SignalRule, SignalWindow, TokenSignal

# So far a share may miss its bound by rounding: three of ten tokens are 0.3 of them.
ROUNDING = 1e-9


class _Places:
    """Where tokens of one kind stand among those that were measured, counted from 1, rising."""

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: list[int] = []

    def add(self, place: int) -> None:
        places = self._places
        if len(places) >= 2 * MAX_WINDOW_TOKENS:
            del places[:MAX_WINDOW_TOKENS]  # no window reaches so far back
        places.append(place)

    def take_back(self, place: int) -> None:
        """The token at `place`, the last one of all, is gone."""
        if self._places and self._places[-1] == place:
            self._places.pop()

    def num_from(self, place: int) -> int:
        return len(self._places) - bisect_left(self._places, place)


class _RuleWatch:
    """One rule. `due_at` is from how many decoded tokens on its window may be told again, `told_at` with how
    many it was told last."""

    __slots__ = ("due_at", "high", "place", "rule", "told_at")

    def __init__(self, place: int, rule: SignalRule, high: _Places) -> None:
        self.place = place
        self.rule = rule
        self.high = high
        self.told_at = 0
        self.due_at = max(rule.min_decoded, 1)

    def fires(self, repeated: _Places, *, num_measured: int, num_decoded: int) -> bool:
        rule = self.rule
        # Taken back and drawn anew it is not told again: a hook that always injects would never end.
        if num_decoded <= self.told_at:
            return False
        if rule.every_tokens and num_decoded % rule.every_tokens == 0:
            return True
        if num_decoded < self.due_at:
            return False
        size = min(rule.window_tokens, num_measured)
        begin = num_measured - size + 1
        if self.high.num_from(begin) >= rule.min_high_share * size - ROUNDING:
            return True
        return repeated.num_from(begin + 1) >= rule.min_repetitions

    def note_told(self, num_decoded: int) -> None:
        self.told_at = num_decoded
        self.due_at = max(self.due_at, num_decoded + max(self.rule.min_between, 1))

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
        self._history: deque[TokenSignal] = deque(
            maxlen=max([rule.window_tokens for rule in request.rules], default=0)
        )
        self._num_decoded = 0
        self._num_measured = 0
        self._last_token_id: int | None = None
        self._repeated = _Places()
        # Rising, so that a token that is below one bound is below all that follow.
        self._bounds = [(bound, _Places()) for bound in sorted({one.high_entropy for one in request.rules})]
        high = dict(self._bounds)
        self._rules = [
            _RuleWatch(place, rule, high[rule.high_entropy]) for place, rule in enumerate(request.rules)
        ]
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
        may_fire = self._num_decoded >= self._next_look
        if token_id == self._last_token_id:
            self._repeated.add(place)
            may_fire = True
        self._last_token_id = token_id
        entropy = measured.entropy
        for bound, high in self._bounds:
            if entropy <= bound:
                break
            high.add(place)
            may_fire = True
        return self._look() if may_fire else ()

    def _look(self) -> tuple[SignalWindow, ...]:
        num_measured, num_decoded, repeated = self._num_measured, self._num_decoded, self._repeated
        fired = [
            watch
            for watch in self._rules
            if watch.fires(repeated, num_measured=num_measured, num_decoded=num_decoded)
        ]
        for watch in fired:
            watch.note_told(num_decoded)
        if fired or num_decoded >= self._next_look:
            self._next_look = self._find_next_look()
        return self._windows(fired) if fired else ()

    def _find_next_look(self) -> float:
        return min([watch.next_look(self._num_decoded) for watch in self._rules], default=math.inf)

    def _windows(self, fired: Sequence[_RuleWatch]) -> tuple[SignalWindow, ...]:
        """One for all that have the same size and bound."""
        groups: dict[tuple[int, float], list[_RuleWatch]] = {}
        for watch in fired:
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
        self._repeated.take_back(self._num_measured)
        for _, high in self._bounds:
            high.take_back(self._num_measured)
        self._num_measured -= 1
        self._next_look = self._find_next_look()

    def __repr__(self) -> str:
        return f"<SignalWatch of {len(self._rules)} rules, {self._num_decoded} tokens seen>"
