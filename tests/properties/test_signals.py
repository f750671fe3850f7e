"""When windows are told: as the words say it, whatever is drawn, taken back and put in between."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from inference.domain.signals import SignalRequest, SignalRule, SignalWindow, TokenSignal
from inference.engine.signals import SignalWatch

ENTROPIES = (0.0, 1.0, 2.0, 4.0, 4.5)

rules = st.builds(
    SignalRule,
    window_tokens=st.integers(1, 8) | st.just(1024),
    min_decoded=st.integers(0, 12),
    min_between=st.integers(0, 8),
    high_entropy=st.sampled_from([-1.0, 0.5, 1.0, 3.0, 4.0]),
    min_high_share=st.sampled_from([0.0, 0.25, 0.3, 0.5, 0.75, 1.0, 2.0]),
    min_repetitions=st.integers(0, 4) | st.just(1000),
    every_tokens=st.integers(0, 7),
)
# A token id, its entropy, and whether what was told with it makes a hook put something in.
tokens = st.tuples(st.integers(0, 2), st.sampled_from(ENTROPIES), st.booleans())


class ByDefinition:
    """Everything that was drawn and kept, looked at whole each time. None stands for what was put in."""

    def __init__(self, rules: tuple[SignalRule, ...]) -> None:
        self.rules = rules
        self.kept: list[tuple[int, float] | None] = []
        self.told_at = [0] * len(rules)
        self.windows_told_at: list[int | None] = [None] * len(rules)

    def fired(self) -> dict[int, tuple[int, int, int]]:
        """By rule: tokens in the window, how many of them are high, how many repeat."""
        drawn = [one for one in self.kept if one is not None]
        num_decoded = len(drawn)
        found = {}
        for place, rule in enumerate(self.rules):
            window = drawn[-rule.window_tokens :]
            num_high = sum([entropy > rule.high_entropy for _, entropy in window])
            # Neighbours that are both in the window, and that nothing was put in between.
            pairs = list(pairwise(self.kept))
            repeats = [one is not None and other is not None and one[0] == other[0] for one, other in pairs]
            behind = [index for index, one in enumerate(self.kept) if one is not None]
            first = behind[-len(window)]
            num_repetitions = sum(repeats[first:])
            last = self.windows_told_at[place]
            is_due = num_decoded >= rule.min_decoded and (
                last is None or num_decoded >= last + max(rule.min_between, 1)
            )
            says_so = (
                num_high + 1e-9 >= rule.min_high_share * len(window)
                or num_repetitions >= rule.min_repetitions
            )
            is_multiple = bool(rule.every_tokens) and num_decoded % rule.every_tokens == 0
            if num_decoded > self.told_at[place] and (is_multiple or (is_due and says_so)):
                found[place] = (len(window), num_high, num_repetitions)
                self.told_at[place] = num_decoded
                self.windows_told_at[place] = num_decoded
        return found


@settings(max_examples=300, deadline=None)
@given(st.lists(rules, min_size=1, max_size=4), st.lists(tokens, max_size=60))
def test_they_are_told_as_the_words_say(
    asked: list[SignalRule], drawn: list[tuple[int, float, bool]]
) -> None:
    watch = SignalWatch(SignalRequest(False, tuple(asked)))
    expected = ByDefinition(tuple(asked))
    for token_id, entropy, puts_in in drawn:
        expected.kept.append((token_id, entropy))
        event = watch.observe(token_id, TokenSignal(entropy, 1.0), 0.0, has_more=True)
        found: dict[int, tuple[int, int, int]] = {}
        for window in () if event is None else (event.signal, *event.others):
            assert isinstance(window, SignalWindow)
            for place in window.rules:
                assert place not in found
                found[place] = (window.num_tokens, window.num_high_entropy, window.num_repetitions)
        assert found == expected.fired()
        if event is not None:
            assert event.num_decoded == len([one for one in expected.kept if one is not None])
            if puts_in:
                watch.take_back()
                expected.kept[-1] = None
