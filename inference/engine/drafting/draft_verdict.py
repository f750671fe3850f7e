"""What the tokens drawn behind a draft mean for the sequence: its tokens, its cells, its end."""

from __future__ import annotations

from dataclasses import dataclass

from inference.domain.events import FinishReason, TokenBatch
from inference.engine.drafting.speculation import num_alike
from inference.engine.kv_memory import KvMemory
from inference.engine.plan import NOTHING_DRAWN, DraftedDecode, DrawnRun


@dataclass(frozen=True, slots=True)
class DraftVerdict:
    """The answer goes on with `token_ids`; then it ends for `reason`, if there is one, or has failed.
    `logprobs` are as TokenBatch has them."""

    batch: TokenBatch
    reason: FinishReason | None
    has_failed: bool


def apply_run(
    drafted: DraftedDecode, run: DrawnRun, memory: KvMemory, end_token_ids: frozenset[int], now_ts: float
) -> DraftVerdict:
    """Add what was drawn to the sequence, and take the cells of rejected tokens out of the memory. All rows
    of the draft have been computed."""
    sequence = drafted.sequence
    last = run.token_ids[-1]
    is_said = last != NOTHING_DRAWN and last not in end_token_ids
    said = run.token_ids if is_said else run.token_ids[:-1]
    token_ids = (*said, *run.forced)
    num_computed = num_alike(drafted.token_ids, token_ids)
    if is_said and num_computed == len(token_ids):
        # Something is left to compute in a sequence that goes on: what its next token is drawn after.
        num_computed -= 1
    memory.grow(sequence.sequence_id, drafted.num_rows)
    num_generated = sequence.append_run(token_ids, 1 + num_computed)
    if 1 + num_computed < drafted.num_rows:
        num_kept = memory.rewind(sequence.sequence_id, sequence.num_computed)
        if num_kept < sequence.num_computed:
            sequence.resync(num_kept)
    reason = None
    if last in end_token_ids or run.is_ended:
        reason = FinishReason.STOP
    elif num_generated >= sequence.max_tokens:
        reason = FinishReason.LENGTH
    batch = TokenBatch(
        token_ids,
        now_ts,
        run.logprobs[: len(said)],
        num_drafted=len(drafted.token_ids),
        num_accepted=num_alike(drafted.token_ids, run.token_ids),
    )
    return DraftVerdict(batch, reason, last == NOTHING_DRAWN)
