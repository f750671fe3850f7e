"""What the tokens drawn behind a draft mean for the sequence: its tokens, its cells, its end."""

from __future__ import annotations

from inference.domain.errors import GenerationFailed
from inference.domain.events import Failed, Finished, FinishReason, TokenBatch
from inference.engine.drafting.speculation import num_alike
from inference.engine.kv_memory import KvMemory
from inference.engine.plan import NOTHING_DRAWN, DraftedDecode, DrawnRun
from inference.engine.refusal import FAILED_MESSAGE


def apply_run(
    drafted: DraftedDecode, run: DrawnRun, memory: KvMemory, end_token_ids: frozenset[int], now_ts: float
) -> tuple[TokenBatch, Finished | Failed | None]:
    """Add what was drawn to the sequence, and take the cells of rejected tokens out of the memory. All rows
    of the draft have been computed. What to tell of it: the new tokens, and the end, where it is one."""
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
    ending: Finished | Failed | None = None
    if last == NOTHING_DRAWN:
        ending = Failed(GenerationFailed(FAILED_MESSAGE), now_ts)
    elif last in end_token_ids or run.is_ended:
        ending = Finished(FinishReason.STOP, now_ts)
    elif num_generated >= sequence.max_tokens:
        ending = Finished(FinishReason.LENGTH, now_ts)
    batch = TokenBatch(
        token_ids,
        now_ts,
        run.logprobs[: len(said)],
        num_drafted=len(drafted.token_ids),
        num_accepted=num_alike(drafted.token_ids, run.token_ids),
    )
    return batch, ending
