"""Whether drafts pay, from what they cost and what they brought: off where they do not, tried now and then.

Time is the currency. Each sequence has an account of seconds that it may lose: a little from the start, a
hundredth of the time in which it decodes, and what its drafts have gained. A draft is only made where all it
can cost is on the account. So whatever the text, an answer takes at most a few hundredths longer than without
drafts, and one that repeats itself soon has all the credit that it needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inference.engine.drafting.step_costs import StepCosts

# Seconds that may be lost, as parts: of a plain step's time for a new sequence, and of all time that is
# decoded, for the sequence itself and for those that come after it.
START_STEPS = 1.0
OWN_SHARE = 0.01
COMMON_SHARE = 0.005
# What was gained is not kept for ever, nor is what was lost: in plain steps.
MAX_CREDIT_STEPS = 16.0
MAX_DEBT_STEPS = 8.0
# Expected to be so much faster, or it is a trial.
WANTED_GAIN = 1.02
MAX_TRIAL_TOKENS = 2
# Chances are those of the sequence, and so many tokens of the model's experience beside them.
PRIOR_TOKENS = 4.0
# The older half of what was seen counts half: after so many tokens of a sequence, and of a model.
OWN_MEMORY = 32.0
MODEL_MEMORY = 256.0


class Chances:
    """How likely a drafted token is accepted, by how sure its source was (0 … one less than there are)."""

    __slots__ = ("_memory", "hits", "trials")

    def __init__(self, memory: float, initial: Sequence[float] = (), *, num_grades: int = 0) -> None:
        self._memory = memory
        size = len(initial) or num_grades
        # What is assumed counts as if it had been seen a few times.
        self.trials = [PRIOR_TOKENS if initial else 0.0] * size
        self.hits = [PRIOR_TOKENS * chance for chance in initial] if initial else [0.0] * size

    def observe(self, grade: int, *, num_accepted: int, was_rejected: bool) -> None:
        self.hits[grade] += num_accepted
        self.trials[grade] += num_accepted + was_rejected
        if self.trials[grade] > self._memory:
            self.hits[grade] /= 2
            self.trials[grade] /= 2

    def of(self, grade: int) -> float:
        return self.hits[grade] / self.trials[grade]


# Of what prompt lookup finds, by the length of the match (up to the number), before anything was seen.
LOOKUP_GRADES = (4, 8, 16, 1 << 30)
LOOKUP_CHANCES = (0.4, 0.6, 0.8, 0.9)
# The last grade is a draft model's.
MODEL_GRADE = len(LOOKUP_GRADES)
MODEL_CHANCE = 0.6


def lookup_grade(num_matched: int) -> int:
    """How sure a match of so many tokens is."""
    return next(grade for grade, limit in enumerate(LOOKUP_GRADES) if num_matched <= limit)


class DraftAccount:
    """One sequence's: seconds that its drafts may still cost, and what became of them so far."""

    __slots__ = ("chances", "credit_s", "is_open", "num_accepted", "num_drafted")

    def __init__(self) -> None:
        self.chances = Chances(OWN_MEMORY, num_grades=MODEL_GRADE + 1)
        self.credit_s = 0.0
        self.is_open = False
        self.num_drafted = 0
        self.num_accepted = 0


@dataclass(frozen=True, slots=True)
class DraftOutcome:
    """One draft of a step. `was_rejected`: the model said something else; else it was accepted whole, or
    the answer ended in it."""

    account: DraftAccount
    grade: int
    num_drafted: int
    num_accepted: int
    was_rejected: bool


class StepBudget:
    """A step that is being put together: each sequence asks in turn how far it may guess."""

    def __init__(self, governor: DraftGovernor, num_sequences: int, max_rows: int) -> None:
        self._governor = governor
        self._num_sequences = num_sequences
        self._num_rows = 0
        self._num_tokens = float(num_sequences)
        self.num_left = max_rows

    def allowed(self, account: DraftAccount, grade: int, num_tokens: int, *, drafting_s: float = 0.0) -> int:
        """How many of `num_tokens` guessed tokens are worth their rows; 0: none. A token that has to be
        drafted first costs `drafting_s`."""
        costs, num_sequences = self._governor.costs, self._num_sequences
        now_s = costs.step_s(num_sequences, self._num_rows)
        plain_s = costs.plain_s(num_sequences)
        if now_s is None or plain_s is None:
            return 0
        self._governor.open(account, plain_s)
        chance = self._governor.chance(account, grade)
        if now_s <= 0:
            return min(num_tokens, self.num_left)  # too little to be measured
        speed = self._num_tokens / now_s
        best, best_speed, trial = 0, speed * WANTED_GAIN, 0
        expected, chance_so_far = self._num_tokens, 1.0
        for size in range(1, min(num_tokens, self.num_left) + 1):
            chance_so_far *= chance
            expected += chance_so_far
            step_s = costs.step_s(num_sequences, self._num_rows + size)
            assert step_s is not None
            step_s += drafting_s * size
            if step_s - now_s > account.credit_s:
                continue
            if size <= MAX_TRIAL_TOKENS:
                trial = size
            if expected / step_s > best_speed:
                best, best_speed = size, expected / step_s
        return best or trial

    def expected_saving_s(
        self, account: DraftAccount, grade: int, num_tokens: int, *, drafting_s: float
    ) -> float:
        """Seconds by which a token of the sequence would come sooner with drafts of the best length; 0 where
        that is not known, or would be later. Whatever the account says."""
        costs, num_sequences = self._governor.costs, self._num_sequences
        plain_s = costs.plain_s(num_sequences)
        if plain_s is None:
            return 0.0
        chance = self._governor.chance(account, grade)
        best_s = plain_s
        expected = chance_so_far = 1.0
        for size in range(1, min(num_tokens, self.num_left) + 1):
            chance_so_far *= chance
            expected += chance_so_far
            step_s = costs.step_s(num_sequences, size)
            assert step_s is not None
            best_s = min(best_s, (step_s + drafting_s * size) / expected)
        return plain_s - best_s

    def take(self, account: DraftAccount, grade: int, num_tokens: int) -> None:
        """So many rows are in the step now."""
        self._num_rows += num_tokens
        self.num_left -= num_tokens
        chance = self._governor.chance(account, grade)
        self._num_tokens += sum(chance**size for size in range(1, num_tokens + 1))


class DraftGovernor:
    """Of one model; belongs to the engine thread. It has no clock: whoever measured says how long it was."""

    def __init__(self) -> None:
        self.costs = StepCosts()
        self._chances = Chances(MODEL_MEMORY, (*LOOKUP_CHANCES, MODEL_CHANCE))
        # What new sequences begin with; None before a step was measured.
        self._pot_s: float | None = None
        self._plain_s = 0.0

    def begin_step(self, num_sequences: int, max_rows: int) -> StepBudget:
        return StepBudget(self, num_sequences, max_rows)

    def chance(self, account: DraftAccount, grade: int) -> float:
        """How likely the sequence's next guess of this grade is right."""
        own = account.chances
        weighted = own.hits[grade] + PRIOR_TOKENS * self._chances.of(grade)
        return weighted / (own.trials[grade] + PRIOR_TOKENS)

    def open(self, account: DraftAccount, plain_s: float) -> None:
        """Give a new sequence something to begin with, as far as there is any."""
        if account.is_open:
            return
        account.is_open = True
        self._plain_s = plain_s
        if self._pot_s is None:
            self._pot_s = plain_s * START_STEPS
        start_s = min(max(self._pot_s, 0.0), plain_s * START_STEPS)
        self._pot_s -= start_s
        account.credit_s += start_s

    def close(self, account: DraftAccount) -> None:
        """The sequence ended: what it has left, or owes, is for those that come."""
        if account.is_open and self._pot_s is not None:
            self._pot_s = min(self._pot_s + account.credit_s, self._plain_s * MAX_CREDIT_STEPS)

    def observe_plain(self, accounts: Sequence[DraftAccount], num_sequences: int, duration_s: float) -> None:
        """A step of `num_sequences` decoding sequences without drafts; `accounts` of those that may draft."""
        self.costs.observe(num_sequences, 0, duration_s)
        self._earn(accounts, num_sequences, duration_s)

    def observe(
        self,
        accounts: Sequence[DraftAccount],
        outcomes: Sequence[DraftOutcome],
        *,
        num_sequences: int,
        duration_s: float,
        drafting_s: float = 0.0,
    ) -> None:
        """A step with drafts took `duration_s`, and making them `drafting_s` before."""
        num_rows = sum(one.num_drafted for one in outcomes)
        expected_s = self.costs.step_s(num_sequences, num_rows)
        plain_s = self.costs.plain_s(num_sequences)
        self.costs.observe(num_sequences, num_rows, duration_s)
        for one in outcomes:
            for chances in (one.account.chances, self._chances):
                chances.observe(one.grade, num_accepted=one.num_accepted, was_rejected=one.was_rejected)
            one.account.num_drafted += one.num_drafted
            one.account.num_accepted += one.num_accepted
        if expected_s is None or plain_s is None:
            return
        # A disturbed step is nobody's fault.
        extra_s = min(duration_s, 2 * expected_s) - plain_s + drafting_s
        for one in outcomes:
            gain_s = one.num_accepted * plain_s / num_sequences
            change_s = gain_s - extra_s * one.num_drafted / num_rows
            floor_s, ceiling_s = -MAX_DEBT_STEPS * plain_s, MAX_CREDIT_STEPS * plain_s
            one.account.credit_s = min(max(one.account.credit_s + change_s, floor_s), ceiling_s)
        self._earn(accounts, num_sequences, plain_s)

    def _earn(self, accounts: Sequence[DraftAccount], num_sequences: int, step_s: float) -> None:
        plain_s = self.costs.plain_s(num_sequences)
        if plain_s is None:
            return
        # A disturbed step earns no more than another.
        step_s = min(step_s, plain_s)
        for account in accounts:
            account.credit_s = min(account.credit_s + OWN_SHARE * step_s, MAX_CREDIT_STEPS * plain_s)
        if self._pot_s is not None:
            self._pot_s = min(self._pot_s + COMMON_SHARE * step_s, MAX_CREDIT_STEPS * plain_s)

    def __repr__(self) -> str:
        chances = ", ".join(f"{self._chances.of(grade):.2f}" for grade in range(MODEL_GRADE + 1))
        return f"<DraftGovernor, chances {chances}, {self.costs!r}>"
