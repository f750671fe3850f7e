"""Drawing behind drafted tokens, one after the other, as if each had had a step of its own.

A sequence's sampler sees the same logits in the same order as without drafts and takes as many random
numbers: rows behind the first token that is not the guessed one are never looked at. So penalties, bans,
constraints and seeds mean what they mean otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from inference.domain.logprobs import TokenLogprobs
from inference.engine.llama.logprobs import raw_rows
from inference.engine.llama.sampling import LogitsArray, Sampler, draw_tokens
from inference.engine.plan import NOTHING_DRAWN, DraftedDecode, DrawnRun
from inference.engine.sequence import Sequence as DecodingSequence


class _Run:
    """How far one sequence has come in its rows, of which the first is `first_row`."""

    __slots__ = ("drafted", "first_row", "forced", "is_ended", "is_over", "logprobs", "sampler", "token_ids")

    def __init__(self, drafted: DraftedDecode, sampler: Sampler, first_row: int) -> None:
        self.drafted = drafted
        self.sampler = sampler
        self.first_row = first_row
        self.token_ids: list[int] = []
        self.logprobs: list[TokenLogprobs] = []
        self.forced: tuple[int, ...] = ()
        self.is_ended = False
        self.is_over = False

    @property
    def row(self) -> int:
        return self.first_row + len(self.token_ids)


# What alone can follow a sequence's last token, of which so many were drawn in this step; None: a failure.
Force = Callable[[DecodingSequence, Sampler, int], tuple[int, ...] | None]


def draw_runs(
    logits: LogitsArray,
    drafted: Sequence[DraftedDecode],
    samplers: Sequence[Sampler],
    end_token_ids: frozenset[int],
    force: Force,
) -> tuple[DrawnRun, ...]:
    """`logits` (rows, vocabulary) are those of all rows of `drafted`, in their order; they may be changed."""
    runs: list[_Run] = []
    first_row = 0
    for one, sampler in zip(drafted, samplers, strict=True):
        runs.append(_Run(one, sampler, first_row))
        first_row += one.num_rows
    while live := [run for run in runs if not run.is_over]:
        rows = [run.row for run in live]
        picked = logits[rows[0] : rows[0] + 1] if len(rows) == 1 else logits[np.array(rows)]
        raws = raw_rows(picked, [run.drafted.sequence.request.num_top_logprobs for run in live])
        drawn = draw_tokens(picked, [run.sampler for run in live])
        for place, (run, token_id) in enumerate(zip(live, drawn, strict=True)):
            if token_id != NOTHING_DRAWN and place in raws:
                run.logprobs.append(raws[place].of(token_id))
            _take(run, token_id, end_token_ids, force)
    return tuple([DrawnRun(tuple(r.token_ids), r.forced, tuple(r.logprobs), r.is_ended) for r in runs])


def _take(run: _Run, token_id: int, end_token_ids: frozenset[int], force: Force) -> None:
    """Note what was drawn, and whether the row of the next guessed token is of any use."""
    draft, constraint = run.drafted.token_ids, run.sampler.constraint
    depth = len(run.token_ids)
    run.token_ids.append(token_id)
    if constraint is not None and token_id != NOTHING_DRAWN and token_id not in end_token_ids:
        forced = force(run.drafted.sequence, run.sampler, depth + 1)
        if forced is None:
            run.token_ids[-1] = NOTHING_DRAWN
        else:
            run.forced = forced
        run.is_ended = constraint.is_ended
    num_generated = run.drafted.sequence.num_generated + depth + 1
    run.is_over = (
        depth == len(draft)
        or token_id != draft[depth]
        or run.token_ids[-1] == NOTHING_DRAWN
        or bool(run.forced)
        or run.is_ended
        or num_generated >= run.drafted.sequence.max_tokens
    )
