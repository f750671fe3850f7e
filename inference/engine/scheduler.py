"""Who computes what in the next step.

A step costs about as much as the tokens in it, and a stream's reader feels every step. So all
decodes come first, and prompts share what is left of a budget (pacing.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from inference.engine.adapter_turns import AdapterTurns
from inference.engine.config import EngineConfig
from inference.engine.drafting.speculation import Speculation
from inference.engine.model_runner import ModelRunner
from inference.engine.pacing import PrefillPacer
from inference.engine.plan import PrefillChunk, StepPlan
from inference.engine.sequence import (
    DECODING,
    ENDED,
    HELD,
    PREEMPTED,
    PREFILLING,
    WAITING_FOR_PREFIX,
    Sequence,
)
from inference.engine.sequence_media import media_run, num_alike

# The part of the prefill budget that the prompt which waits longest always gets.
OLDEST_SHARE = 4


class Scheduler:
    """The sequences that hold a lane, oldest first, and the rules of a step.

    Embeddings of pictures and sounds are computed in steps of their own, every second one while there
    is anything else to do, by the same rules. So are prompts whose own tokens are to be scored, one at a
    time and as many tokens as there are rows of logits.

    Prompts are served shortest remainder first, which gives the lowest mean time to first token,
    but a quarter of the budget goes to the oldest, so that a long prompt of n tokens is computed
    within 4n tokens of budget whatever else arrives. Equal prompts are served in order of arrival.
    A prompt that others wait for counts as short as what they wait for.

    A sequence whose cells were given up comes back when its tokens fit again with some room to
    grow, the oldest first; until then nobody new should be let in. Where nothing else runs, it comes
    back whatever held ones have: they give it up if need be.

    A batch has one set of adapters: where there are others, they take turns (adapter_turns.py) by the
    clock `now`.
    """

    def __init__(
        self,
        config: EngineConfig,
        runner: ModelRunner,
        pacer: PrefillPacer,
        speculation: Speculation,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._num_cells = runner.num_cells
        self._max_outputs = runner.max_outputs
        self._max_batch_tokens = config.max_batch_tokens
        self._resume_headroom_tokens = config.resume_headroom_tokens
        self._pacer = pacer
        self._speculation = speculation
        self._sequences: list[Sequence] = []
        self._num_preempted = 0
        self._turns = AdapterTurns(now)
        # While nobody wants adapters, nobody is asked.
        self._num_adapted = 0
        self._last_plan: StepPlan | None = None
        self._was_media = False
        self._was_scoring = False

    @property
    def sequences(self) -> list[Sequence]:
        """A copy, oldest first; may be taken from any thread."""
        return self._sequences.copy()

    @property
    def has_preempted(self) -> bool:
        return self._num_preempted > 0

    def add(self, sequence: Sequence) -> None:
        self._sequences.append(sequence)
        self._num_adapted += bool(sequence.adapters)
        self._speculation.add(sequence)

    def remove(self, sequence: Sequence) -> None:
        """Take an ended sequence out; `sequence.end()` is for its owner to call, before or after."""
        self._sequences.remove(sequence)
        self._num_adapted -= bool(sequence.adapters)
        self._speculation.remove(sequence)
        self._last_plan = None  # which holds on to it
        self._num_preempted = sum([other.state is PREEMPTED for other in self._sequences])

    def schedule(self) -> StepPlan | None:
        """The next batch, or None where nothing can be computed. Good until the next call: steady
        decoding reuses its arrays."""
        sequences, num_idle = self._sequences, self._num_preempted
        if self._num_adapted:
            sequences, num_idle = self._turns.take(sequences), 0
        decoding = [sequence for sequence in sequences if sequence.state is DECODING]
        prefills: list[PrefillChunk] = []
        if len(decoding) + num_idle < len(sequences):
            waiting = [
                sequence
                for sequence in sequences
                if sequence.state is PREFILLING and not sequence.num_to_restore
            ]
            media = [sequence for sequence in waiting if media_run(sequence) is not None]
            if media and self._is_media_due(has_others=bool(decoding) or len(media) < len(waiting)):
                return plan_media(media, self._pacer.budget(len(decoding)))
            if media:
                waiting = [sequence for sequence in waiting if media_run(sequence) is None]
            scoring = [sequence for sequence in waiting if sequence.is_scoring]
            if scoring and self._is_scoring_due(has_others=bool(decoding) or len(scoring) < len(waiting)):
                return self._plan_scored(scoring[0], len(decoding))
            if scoring:
                waiting = [sequence for sequence in waiting if not sequence.is_scoring]
            prefills = share(waiting, self._pacer.budget(len(decoding)))
        if not decoding and not prefills:
            return None
        if self._speculation.members and not prefills and not self._num_preempted:
            drafted = self._speculation.draft(decoding)
            if drafted:
                guessed = {one.sequence for one in drafted}
                return StepPlan.build_drafted([one for one in decoding if one not in guessed], drafted)
        last = self._last_plan
        if not prefills and last is not None and last.is_for(decoding):
            return last.repeat()
        self._last_plan = StepPlan.build(decoding, prefills)
        return self._last_plan

    def _is_media_due(self, *, has_others: bool) -> bool:
        """A batch has tokens or embeddings: where there is both to do, they take turns."""
        self._was_media = not (self._was_media and has_others)
        return self._was_media

    def _is_scoring_due(self, *, has_others: bool) -> bool:
        """The other steps are for all others."""
        self._was_scoring = not (self._was_scoring and has_others)
        return self._was_scoring

    def _plan_scored(self, sequence: Sequence, num_decodes: int) -> StepPlan:
        return StepPlan.build_scored(sequence, min(self._max_outputs, self._pacer.budget(num_decodes)))

    def plan_one(self, sequence: Sequence) -> StepPlan:
        """A batch for one sequence alone: how a failed step finds out whose fault it was."""
        if sequence.state is DECODING:
            return StepPlan.build([sequence], [])
        if media_run(sequence) is not None:
            return plan_media([sequence], self._max_batch_tokens)
        if sequence.is_scoring:
            return self._plan_scored(sequence, 0)
        return StepPlan.build([], share([sequence], self._max_batch_tokens))

    @property
    def has_streams(self) -> bool:
        """Somebody's answer is on its way, token by token."""
        return any(sequence.state is DECODING for sequence in self._sequences)

    def running(self) -> list[Sequence]:
        """Those that compute something, oldest first."""
        return [one for one in self._sequences if one.state is PREFILLING or one.state is DECODING]

    def victim(self) -> Sequence | None:
        """Whom to preempt when cells run out: the youngest held one that has some, since nobody's
        answer stops by that, else the youngest that runs; None where only one is left to run."""
        held = [one for one in self._sequences if one.state is HELD and one.num_computed]
        if held:
            return held[-1]
        running = self.running()
        return running[-1] if len(running) > 1 else None

    def preempt(self, sequence: Sequence) -> None:
        """Its cells were freed; it waits until there is room again, and if it is held, that is later."""
        sequence.preempt()
        self._num_preempted += sequence.state is PREEMPTED

    def hold(self, sequence: Sequence) -> None:
        """It stands still until `unhold`."""
        self._num_preempted -= sequence.state is PREEMPTED
        sequence.hold()

    def unhold(self, sequence: Sequence) -> None:
        """It goes on in the next batch; where it has no cells, when there is room for them."""
        sequence.unhold()
        self._num_preempted += sequence.state is PREEMPTED

    def lose_cells(self) -> list[Sequence]:
        """Nobody's cells are there any more: all that had some compute what they know once more, held ones
        when they go on. Returns those."""
        losers = [one for one in self._sequences if one.num_computed]
        for sequence in losers:
            if sequence.state is HELD:
                sequence.preempt()
            else:
                sequence.resync(0)
        return losers

    def waiting_for_prefix(self) -> list[Sequence]:
        """Those that wait for what another one computes, oldest first."""
        return [one for one in self._sequences if one.state is WAITING_FOR_PREFIX]

    def leaders(self, sequence: Sequence) -> dict[int, Sequence]:
        """Whom a sequence may wait for, by sequence id: those that compute their prompt and are older.
        So waiting is never a circle, and nobody waits for one that came later, again and again."""
        return {
            one.sequence_id: one
            for one in self._sequences
            if one.state is PREFILLING and one.order < sequence.order
        }

    @property
    def num_cells_to_come(self) -> int:
        """Cells that the running sequences need for what is known, and a little to grow."""
        running = [one for one in self._sequences if not one.has_given_up_cells]
        num_known = sum([one.num_tokens - max(one.num_computed, one.num_awaited) for one in running])
        return num_known + self._resume_headroom_tokens * len(running)

    def resume_where_it_fits(self) -> list[Sequence]:
        """Those that came back; they have no cells yet."""
        resumed: list[Sequence] = []
        if not self._num_preempted:
            return resumed
        for sequence in self._sequences:
            if sequence.state is not PREEMPTED:
                continue
            others = [other for other in self._sequences if not other.has_given_up_cells]
            # What running prompts have not computed yet will need cells too.
            num_claimed = sum([other.num_tokens for other in others])
            headroom = self._resume_headroom_tokens * (len(others) + 1)
            has_room = num_claimed + sequence.num_tokens + headroom <= self._num_cells
            if not has_room and any(other.state is not HELD for other in others):
                break
            sequence.resume()
            self._num_preempted -= 1
            resumed.append(sequence)
        return resumed

    def check_integrity(self) -> None:
        """Raise AssertionError unless what is counted agrees with what is there."""
        states = [sequence.state for sequence in self._sequences]
        if ENDED in states:
            raise AssertionError("an ended sequence is still scheduled")
        if states.count(PREEMPTED) != self._num_preempted:
            raise AssertionError(f"{states.count(PREEMPTED)} are preempted, not {self._num_preempted}")
        num_adapted = len([sequence for sequence in self._sequences if sequence.adapters])
        if num_adapted != self._num_adapted:
            raise AssertionError(f"{num_adapted} have adapters, not {self._num_adapted}")
        orders = [sequence.order for sequence in self._sequences]
        if orders != sorted(set(orders)):
            raise AssertionError(f"sequences are out of order: {orders}")
        for sequence in self._sequences:
            if not 0 <= sequence.num_computed < sequence.num_tokens:
                raise AssertionError(f"{sequence!r} has nothing left to compute")
            if sequence.state is DECODING and sequence.num_remaining != 1:
                raise AssertionError(f"{sequence!r} decodes with more than one token left")
            if (sequence.state is HELD) != bool(sequence.submission.holds):
                raise AssertionError(f"{sequence!r} has reasons to be held: {sequence.submission.holds}")
            if sequence.state is WAITING_FOR_PREFIX:
                leader = sequence.leader
                if sequence.num_computed or leader is None or leader.order >= sequence.order:
                    raise AssertionError(f"{sequence!r} waits for {leader!r}")

    def __repr__(self) -> str:
        states = [sequence.state for sequence in self._sequences]
        return (
            f"<Scheduler {states.count(PREFILLING)} prefilling, {states.count(DECODING)} decoding, "
            f"{self._num_preempted} preempted>"
        )


def share(waiting: list[Sequence], budget: int) -> list[PrefillChunk]:
    """Divide `budget` tokens among prompts, `waiting` oldest first; nobody gets an empty chunk."""
    if not waiting:
        return []
    oldest = waiting[0]
    amounts = {oldest: min(num_alike(oldest), max(1, budget // OLDEST_SHARE))}
    left = budget - amounts[oldest]
    for sequence in sorted(waiting, key=lambda sequence: sequence.num_until_due):
        if left <= 0:
            break
        had = amounts.get(sequence, 0)
        extra = min(num_alike(sequence) - had, left)
        amounts[sequence] = had + extra
        left -= extra
    return [
        PrefillChunk(sequence, num_tokens, is_last=num_tokens == sequence.num_remaining)
        for sequence, num_tokens in amounts.items()
        if num_tokens
    ]


def plan_media(waiting: list[Sequence], budget: int) -> StepPlan:
    """A batch of embeddings for those that have some to compute next, `waiting` oldest first. A run that
    is not causal is computed whole, whatever the budget, and alone."""
    oldest = waiting[0]
    run = media_run(oldest)
    if run is not None and not run.is_causal:
        is_last = num_alike(oldest) == oldest.num_remaining
        return StepPlan.build_media([PrefillChunk(oldest, num_alike(oldest), is_last)])
    runs = [(one, media_run(one)) for one in waiting]
    causal = [one for one, run in runs if run is not None and run.is_causal]
    return StepPlan.build_media(share(causal, budget))
