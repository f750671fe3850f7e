"""Which sequences are guessed ahead in the next step, how far, and what came of it.

A draft is rows in the batch beside the sequence's own: the model computes what would come behind each guessed
token and so says at once whether it was right. Rows are not free, so there are drafts only in steps that do
nothing but decode, for a few sequences, where cells are free without taking them from anybody, and as far as
the governor thinks that they pay (draft_governor.py).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass

from inference.domain.speculation import SpeculationMode
from inference.engine.config import EngineConfig
from inference.engine.drafting.draft_governor import (
    MODEL_GRADE,
    DraftAccount,
    DraftGovernor,
    DraftOutcome,
    StepBudget,
    lookup_grade,
)
from inference.engine.drafting.draft_model import DraftModel, DraftOrder
from inference.engine.drafting.draft_window import DraftWindow
from inference.engine.drafting.suffix_index import SuffixIndex
from inference.engine.kv_memory import KvMemory
from inference.engine.model_runner import ModelRunner
from inference.engine.plan import DraftedDecode, DrawnRun, StepOutcome, StepPlan, StepResult
from inference.engine.sequence import Sequence

# Guessed tokens in a step, of all sequences together.
MAX_DRAFT_ROWS = 32
logger = logging.getLogger(__name__)

# With more sequences in it a batch is busy enough.
MAX_DECODING = 8
# A long prompt is indexed over several steps: so many tokens take about a millisecond.
MAX_INDEXED_AT_ONCE = 4096
# A draft model may read so many tokens to see what it is worth; what it has to read beyond is to be saved
# so many times over by the rest of the answer.
MAX_TRIAL_READ = 32
READING_SHARE = 2.0
# After cells ran out because of drafts, so many steps have none.
PAUSE_STEPS = 64


@dataclass(slots=True)
class Member:
    """What is known of one sequence that wants drafts."""

    account: DraftAccount
    window: DraftWindow
    index: SuffixIndex | None
    """None: a draft model guesses for it."""
    grade: int = 0
    """How sure the source of its last draft was."""


class Speculation:
    """Of one model; belongs to the engine thread. `num_drafted_tokens` and `num_accepted_tokens`, since the
    start, may be read by all.

    What running sequences need to grow of the free cells is not for drafts.
    """

    def __init__(
        self, runner: ModelRunner, config: EngineConfig, memory: KvMemory, governor: DraftGovernor
    ) -> None:
        self._governor = governor
        self._config = config
        # Rejected tokens must be taken out of the model's memory again.
        self._is_possible = runner.can_share_prefixes
        self._draft_model = runner.draft_model
        self._drafting_s = 0.0
        self._end_token_ids = runner.end_token_ids
        self._memory = memory
        self._pause = 0
        self.members: dict[Sequence, Member] = {}
        self.num_drafted_tokens = 0
        self.num_accepted_tokens = 0

    def add(self, sequence: Sequence) -> None:
        """A sequence has begun; it need not want drafts."""
        wanted = sequence.request.speculation
        if wanted is None or not self._is_possible:
            return
        index = SuffixIndex() if wanted.mode is SpeculationMode.PROMPT_LOOKUP else None
        # A draft model reads tokens alone.
        if index is not None or (self._draft_model is not None and not sequence.request.media):
            self.members[sequence] = Member(DraftAccount(), DraftWindow(wanted.max_draft_tokens), index)

    def remove(self, sequence: Sequence) -> None:
        """It has ended."""
        member = self.members.pop(sequence, None)
        if member is not None:
            self._governor.close(member.account)
            if member.index is None and self._draft_model is not None:
                self._draft_model.forget(sequence)

    def draft(self, decoding: list[Sequence]) -> list[DraftedDecode]:
        """The drafts of a step in which these sequences decode and nothing else is done; mostly few."""
        num_rows = self._num_rows(len(decoding))
        if num_rows < 1:
            return []
        budget = self._governor.begin_step(len(decoding), num_rows)
        drafted: list[DraftedDecode] = []
        orders: list[DraftOrder] = []
        for sequence in decoding:
            member = self.members.get(sequence)
            if member is None or not budget.num_left or not _may_be_drafted(sequence):
                continue
            num_wanted = min(member.window.size, sequence.num_left_to_generate - 1)
            if member.index is not None:
                token_ids = self._look_up(sequence, member, member.index, budget, num_wanted)
                if token_ids:
                    drafted.append(DraftedDecode(sequence, token_ids))
            elif self._draft_model is not None:
                orders += self._order(sequence, member, self._draft_model, budget, num_wanted)
        self._drafting_s = 0.0
        if orders and self._draft_model is not None:
            drafted += self._fill(orders, self._draft_model)
        return drafted

    def _num_rows(self, num_decoding: int) -> int:
        """How many rows of drafts a step may have."""
        if self._pause:
            self._pause -= 1
            return 0
        if num_decoding > MAX_DECODING:
            return 0
        config = self._config
        num_free = self._memory.num_cells_free - num_decoding * (1 + config.resume_headroom_tokens)
        return min(MAX_DRAFT_ROWS, config.max_outputs - num_decoding, num_free)

    def _look_up(
        self, sequence: Sequence, member: Member, index: SuffixIndex, budget: StepBudget, num_wanted: int
    ) -> tuple[int, ...]:
        index.extend(sequence.known_from(len(index), MAX_INDEXED_AT_ONCE))
        if len(index) < sequence.num_tokens:
            return ()
        proposal = index.propose(num_wanted)
        if proposal is None:
            return ()
        token_ids = self._sayable(proposal.token_ids)
        grade = lookup_grade(proposal.num_matched)
        num_allowed = budget.allowed(member.account, grade, len(token_ids))
        if num_allowed:
            budget.take(member.account, grade, num_allowed)
            member.grade = grade
        return token_ids[:num_allowed]

    def _order(
        self, sequence: Sequence, member: Member, model: DraftModel, budget: StepBudget, num_wanted: int
    ) -> list[DraftOrder]:
        """What to ask the draft model for; nothing where that would not pay. It has to read what is there
        first: a longer text only where the rest of the answer is worth that."""
        account, behind = member.account, model.num_behind(sequence)
        num_allowed = budget.allowed(account, MODEL_GRADE, num_wanted, drafting_s=model.token_s)
        if behind > MAX_TRIAL_READ:
            saved_s = budget.expected_saving_s(account, MODEL_GRADE, num_wanted, drafting_s=model.token_s)
            if saved_s * sequence.num_left_to_generate < READING_SHARE * behind * model.prompt_token_s:
                return []
            num_allowed = max(num_allowed, 1) if saved_s > 0 and num_wanted else 0
        if not num_allowed:
            return []
        budget.take(account, MODEL_GRADE, num_allowed)
        member.grade = MODEL_GRADE
        return [DraftOrder(sequence, num_allowed)]

    def _fill(self, orders: list[DraftOrder], model: DraftModel) -> list[DraftedDecode]:
        try:
            drafts = model.draft(orders)
        except Exception:
            logger.exception("A draft model failed; answers go on without it")
            self._pause = PAUSE_STEPS
            return []
        self._drafting_s = model.token_s * max(map(len, drafts))
        pairs = zip(orders, map(self._sayable, drafts), strict=True)
        return [DraftedDecode(order.sequence, token_ids) for order, token_ids in pairs if token_ids]

    def _sayable(self, token_ids: tuple[int, ...]) -> tuple[int, ...]:
        """Up to what ends an answer, or stands for a part of a picture: neither has anything behind it."""
        for place, token_id in enumerate(token_ids):
            if token_id < 0 or token_id in self._end_token_ids:
                return token_ids[:place]
        return token_ids

    def observe(self, plan: StepPlan, result: StepResult, duration_s: float) -> None:
        """A step was run, while there are members."""
        if plan.prefills or result.outcome is not StepOutcome.DONE:
            if plan.drafted and result.outcome is StepOutcome.NO_CELLS:
                self._pause = PAUSE_STEPS
            return
        members = self.members
        num_sequences = len(plan.decoding) + len(plan.drafted)
        accounts = [members[one].account for one in plan.decoding if one in members]
        if not plan.drafted:
            self._governor.observe_plain(accounts, num_sequences, duration_s)
            return
        outcomes = [self._judge(*pair) for pair in zip(plan.drafted, result.runs, strict=True)]
        accounts += [one.account for one in outcomes]
        self._governor.observe(
            accounts,
            outcomes,
            num_sequences=num_sequences,
            duration_s=duration_s,
            drafting_s=self._drafting_s,
        )

    def _judge(self, drafted: DraftedDecode, run: DrawnRun) -> DraftOutcome:
        member = self.members[drafted.sequence]
        num_drafted, num_accepted = len(drafted.token_ids), num_alike(drafted.token_ids, run.token_ids)
        self.num_drafted_tokens += num_drafted
        self.num_accepted_tokens += num_accepted
        was_rejected = num_accepted < min(num_drafted, len(run.token_ids))
        if was_rejected or num_accepted == num_drafted:
            member.window.observe(num_drafted=num_drafted, num_accepted=num_accepted)
        return DraftOutcome(member.account, member.grade, num_drafted, num_accepted, was_rejected)

    def __repr__(self) -> str:
        return (
            f"<Speculation for {len(self.members)} sequences, {self.num_accepted_tokens} of "
            f"{self.num_drafted_tokens} drafted tokens accepted>"
        )


def _may_be_drafted(sequence: Sequence) -> bool:
    """Where a hook listens, it may stop the sequence at any token, so each of them gets a step."""
    return sequence.watch is None or sequence.watch.is_over


def num_alike(drafted: SequenceOf[int], drawn: SequenceOf[int]) -> int:
    """How many tokens of a draft were drawn indeed, from its beginning on."""
    count = 0
    for guess, token_id in zip(drafted, drawn, strict=False):
        if guess != token_id:
            break
        count += 1
    return count
