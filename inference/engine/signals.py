"""When a hook is to hear how sure the model is.

Asking it after each token would cost a turn of the event loop each time. So the rule is evaluated
here, on the engine thread, and only where it fires is anything told. Rule and numbers are those of
the service that hooks were first written for.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise

from inference.domain.events import Signals
from inference.domain.signals import SignalRequest, SignalWindow, TokenSignal

# In nats: about as unsure as between 55 equally likely tokens.
HIGH_ENTROPY = 4.0
MIN_DECODED_TOKENS = 12
MIN_TOKENS_BETWEEN = 32
# The part of a window that must have a high entropy: 3 of 4.
HIGH_NUMERATOR, HIGH_DENOMINATOR = 3, 4
MIN_REPETITIONS = 3


class SignalWatch:
    """The signals of one sequence, and what of them is to be told. Belongs to the engine thread.

    `is_over` when there will never be anything to tell: then its rows need not be measured any more.
    """

    __slots__ = ("_history", "_last_told", "_num_decoded", "_wants_first", "_wants_hold", "is_over")

    def __init__(self, request: SignalRequest) -> None:
        self._wants_first = request.wants_first_token
        self._wants_hold = request.wants_hold
        self._history: deque[tuple[int, TokenSignal]] = deque(maxlen=request.window_tokens)
        self._num_decoded = 0
        # How many tokens were decoded when a window was told last.
        self._last_told = -MIN_TOKENS_BETWEEN
        self.is_over = not self._wants_first and not request.window_tokens

    def observe(
        self, token_id: int, measured: TokenSignal | None, now_ts: float, *, has_more: bool
    ) -> Signals | None:
        """The next token was drawn, as sure as was `measured` (None: not known). What is to be told
        now; it is held only where it `has_more` tokens to come."""
        self._num_decoded += 1
        if measured is None:
            return None
        self._history.append((token_id, measured))
        signal: TokenSignal | SignalWindow | None = None
        if self._wants_first:
            self._wants_first = False
            self.is_over = not self._history.maxlen
            signal = measured
        elif self._may_tell_window:
            signal = self._window()
        if signal is None:
            return None
        return Signals(signal, self._num_decoded, is_held=self._wants_hold and has_more, at_ts=now_ts)

    @property
    def _may_tell_window(self) -> bool:
        num_since = self._num_decoded - self._last_told
        is_due = self._num_decoded >= MIN_DECODED_TOKENS and num_since >= MIN_TOKENS_BETWEEN
        return is_due and len(self._history) > 0

    def _window(self) -> SignalWindow | None:
        """The window where the rule fires."""
        num_tokens = len(self._history)
        token_ids = [token_id for token_id, _ in self._history]
        entropies = [signal.entropy for _, signal in self._history]
        num_high = sum([entropy > HIGH_ENTROPY for entropy in entropies])
        num_repetitions = sum([one == other for one, other in pairwise(token_ids)])
        is_lost = HIGH_DENOMINATOR * num_high >= HIGH_NUMERATOR * num_tokens
        if not is_lost and num_repetitions < MIN_REPETITIONS:
            return None
        self._last_told = self._num_decoded
        margins = [signal.margin for _, signal in self._history]
        return SignalWindow(
            num_tokens=num_tokens,
            mean_entropy=sum(entropies) / num_tokens,
            max_entropy=max(entropies),
            mean_margin=sum(margins) / num_tokens,
            min_margin=min(margins),
            num_high_entropy=num_high,
            num_repetitions=num_repetitions,
        )

    def __repr__(self) -> str:
        return (
            f"<SignalWatch {len(self._history)} of {self._history.maxlen} tokens, {self._num_decoded} seen>"
        )
