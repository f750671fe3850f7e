"""Text of hooks in running sequences: what waits for them, and what they put in.

A hook that is told how sure the model was may want the answer to go on otherwise: behind words of its own,
instead of the token that made it speak. So that token is withheld while its sequence stands still, and told
or thrown away when the hook has decided. It was not computed yet, so nothing has to be taken out of the
model's memory, whatever kind that is.

What is injected is computed like a prompt, beside the streams of others and within the same budget; nobody is
shown it, and it is not generated. It takes room in the context. Where that is short, the answer ends earlier:
most answers may be as long as the context, and else no hook could say anything in them.
"""

from __future__ import annotations

from inference.domain.admission import EventSink
from inference.domain.backend import HoldReason
from inference.domain.events import Event, Injected, TokenBatch
from inference.domain.injection import InjectionRefusal
from inference.engine.counters import EngineCounters
from inference.engine.model_runner import ModelRunner
from inference.engine.plan import StepResult
from inference.engine.sequence import Sequence


class Injector:
    """Belongs to the engine thread. Knows of a sequence only what stands in it."""

    def __init__(self, runner: ModelRunner, counters: EngineCounters) -> None:
        self._runner = runner
        self._counters = counters

    def withholds(
        self,
        sequence: Sequence,
        batch: TokenBatch,
        result: StepResult,
        index: int,
        events: list[tuple[EventSink, Event]],
    ) -> bool:
        """Add what the hook of a sequence is to hear of its last token, the `index`th of the step. True where
        the hook decides about that one: then it is withheld, and the sequence has to be held."""
        signal, is_complete = result.signals.get(index), index in result.ended
        signals = sequence.observe(signal, batch.at_ts, is_complete=is_complete)
        if signals is None:
            return False
        events.append((sequence.sink, signals))
        if not signals.is_held:
            return False
        sequence.withheld = (batch,)
        sequence.submission.holds.add(HoldReason.HOOK)
        return True

    def release(self, sequence: Sequence, now_ts: float) -> tuple[TokenBatch, ...]:
        """What can be told since its hook holds it no longer: at most one batch. It comes as of now, for its
        reader and its time limit have waited for the hook."""
        if sequence.withheld is None or HoldReason.HOOK in sequence.submission.holds:
            return ()
        withheld, sequence.withheld = sequence.withheld, None
        return tuple([batch._replace(at_ts=now_ts) for batch in withheld])

    def inject(self, sequence: Sequence, token_ids: tuple[int, ...], now_ts: float) -> Injected:
        """Let the sequence go on behind these, as soon as it is resumed; or say why not."""
        refusal = self._refusal(sequence, token_ids)
        if refusal is not None:
            return Injected(0, 0, refusal, now_ts)
        num_discarded = len(sequence.withheld or ())
        if num_discarded:
            sequence.take_back()
            sequence.withheld = ()
        sequence.inject(token_ids)
        # The answer may fill what is left of the context; its last token is never computed.
        num_left = self._runner.max_sequence_tokens - sequence.num_tokens
        sequence.max_tokens = min(sequence.max_tokens, sequence.num_generated + num_left)
        self._runner.inject(sequence.sequence_id, token_ids, takes_back=bool(num_discarded))
        self._counters.num_injected_tokens += len(token_ids)
        self._counters.num_discarded_tokens += num_discarded
        return Injected(len(token_ids), num_discarded, "", now_ts)

    def _refusal(self, sequence: Sequence, token_ids: tuple[int, ...]) -> InjectionRefusal | None:
        runner = self._runner
        if sequence.withheld is None:
            return InjectionRefusal.NOT_HELD
        if sequence.request.constraint is not None:
            return InjectionRefusal.CONSTRAINED
        if not token_ids:
            return InjectionRefusal.EMPTY
        if min(token_ids) < 0 or max(token_ids) >= runner.num_vocabulary:
            return InjectionRefusal.CONTROL_TOKEN
        if not runner.control_token_ids.isdisjoint(token_ids):
            return InjectionRefusal.CONTROL_TOKEN
        num_kept = sequence.num_tokens - len(sequence.withheld)
        if num_kept + len(token_ids) + 1 > runner.max_sequence_tokens:
            return InjectionRefusal.NO_ROOM
        return None

    def __repr__(self) -> str:
        counters = self._counters
        return (
            f"<Injector, {counters.num_injected_tokens} tokens injected, {counters.num_discarded_tokens} "
            "discarded>"
        )
