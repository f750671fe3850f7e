"""What a step costs with so many rows in it, as it was measured: on two cores a row more may cost half a
step, on a GPU nothing."""

from __future__ import annotations

# How much one step counts against those before it.
WEIGHT = 0.2
# A step that was disturbed counts as at most so much longer, or shorter, than was expected.
MAX_SURPRISE = 2.0
# A row more, as a part of a step of one row, before anything was measured. (SmolLM2, Q8_0, two cores: 0.3.)
ASSUMED_ROW_SHARE = 0.3
# Of so many plain steps the time is believed.
NUM_BELIEVED = 3


class StepCosts:
    """Of one model. Steps are told apart by how many sequences decode in them, and how many rows of drafts
    there are beside. Costs of drafts are kept as multiples of the plain step: what makes all steps slower (a
    longer context, a busy machine) makes no false comparison."""

    def __init__(self) -> None:
        self._plain: dict[int, tuple[float, int]] = {}
        # By sequences and then by rows of drafts.
        self._factors: dict[int, dict[int, float]] = {}

    def observe(self, num_sequences: int, num_rows: int, duration_s: float) -> None:
        """A step of that many decoding sequences, `num_rows` of drafts beside them, took `duration_s`."""
        if num_rows == 0:
            mean, count = self._plain.get(num_sequences, (duration_s, 0))
            if count < NUM_BELIEVED:
                # What disturbs a step makes it longer, so of the first ones the shortest says most.
                mean = min(mean, duration_s)
            else:
                seen = min(max(duration_s, mean / MAX_SURPRISE), mean * MAX_SURPRISE)
                mean += WEIGHT * (seen - mean)
            self._plain[num_sequences] = (mean, count + 1)
            return
        plain = self.plain_s(num_sequences)
        if plain is None or plain <= 0:
            return
        factors = self._factors.setdefault(num_sequences, {})
        expected = self._factor(num_sequences, num_rows)
        seen = min(max(duration_s / plain, expected / MAX_SURPRISE), expected * MAX_SURPRISE)
        factors[num_rows] = expected + WEIGHT * (seen - expected) if num_rows in factors else seen

    def plain_s(self, num_sequences: int) -> float | None:
        """Seconds of a step without drafts; None where too few were measured."""
        mean, count = self._plain.get(num_sequences, (0.0, 0))
        return mean if count >= NUM_BELIEVED else None

    def step_s(self, num_sequences: int, num_rows: int) -> float | None:
        """Seconds of a step with `num_rows` rows of drafts."""
        plain = self.plain_s(num_sequences)
        return None if plain is None else plain * self._factor(num_sequences, num_rows)

    def _factor(self, num_sequences: int, num_rows: int) -> float:
        """From what was measured on both sides; beyond, as steep as it was last."""
        if not num_rows:
            return 1.0
        factors = self._factors.get(num_sequences)
        if not factors:
            return 1.0 + ASSUMED_ROW_SHARE * num_rows / num_sequences
        known = factors.get(num_rows)
        if known is not None:
            return known
        below = max((rows for rows in factors if rows < num_rows), default=0)
        above = min((rows for rows in factors if rows > num_rows), default=0)
        low = factors.get(below, 1.0)
        if above:
            return low + (factors[above] - low) * (num_rows - below) / (above - below)
        slope = max(low - 1.0, 0.0) / below
        return low + slope * (num_rows - below)

    def __repr__(self) -> str:
        one = self.plain_s(1)
        return "<StepCosts, nothing measured>" if one is None else f"<StepCosts {one * 1000:.2f} ms for one>"
