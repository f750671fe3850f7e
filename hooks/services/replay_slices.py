"""A replay done a few seconds at a time: the worker that does it has other things to do in between, nothing
is held in memory or in a transaction meanwhile, and whoever comes next goes on from the last record."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from django.db import InterfaceError, OperationalError
from django.utils import timezone

from hooks.contracts.refusals import HookRefusal
from hooks.models import HookReplay
from hooks.models.replay import MAX_REASON_LENGTH, ReplayState
from hooks.replaying import RecordPoint, ReplayJudge, Tally
from hooks.services.replay_source import advance_send, replay_source
from hooks.services.replays import (
    MAX_RUNNING,
    MAX_TIME,
    SLICE_LEASE,
    TOO_LONG,
    policy_replayed,
    taking_turns,
    waiting_advance,
)

SLICE_S = 3.0
PAGE_RECORDS = 2_000

_log = logging.getLogger(__name__)


def replay_advance(*, replay_id: int, slice_s: float = SLICE_S) -> bool:
    """One slice, if it is this one's turn and nobody else has it. Whether there is more to do. Raises what
    Django does where the database is away."""
    row = _claimed(replay_id)
    if row is None:
        return False
    try:
        changes = _slice(row, slice_s)
    except HookRefusal as refusal:
        changes = _ended(ReplayState.FAILED, refusal.message)
    except (OperationalError, InterfaceError):
        # The database was away, which is no fault of a record: the slice is lost, and done again.
        raise
    except Exception as problem:
        # Its message may hold what somebody wrote.
        _log.error("replay %d ended: %s", replay_id, type(problem).__name__)
        changes = _ended(ReplayState.FAILED, f"a record could not be judged ({type(problem).__name__})")
    mine = HookReplay.objects.filter(pk=replay_id, turn=row.turn)
    state = changes.pop("state", None)
    mine.update(claimed_until=None, seen_at=timezone.now(), **changes)
    if state is None:
        return bool(mine.filter(state=ReplayState.RUNNING.value).exists())
    # One that was cancelled meanwhile stays so.
    mine.filter(state=ReplayState.RUNNING.value).update(state=state, finished_at=timezone.now())
    return False


def replay_advance_and_send(*, replay_id: int) -> None:
    """One slice; the next one is another task's, behind whatever waits for the worker."""
    if replay_advance(replay_id=replay_id):
        advance_send(replay_id)
    else:
        waiting_advance()


def replay_finish(*, replay_id: int, told: Callable[[HookReplay], None]) -> HookReplay:
    """All of it here and now, for commands; `told` is called after each slice."""
    while replay_advance(replay_id=replay_id):
        told(HookReplay.objects.get(pk=replay_id))
    return HookReplay.objects.get(pk=replay_id)


def _claimed(replay_id: int) -> HookReplay | None:
    """The row, RUNNING and this caller's for SLICE_LEASE."""
    now = timezone.now()
    with taking_turns():
        row = HookReplay.objects.select_for_update().filter(pk=replay_id).first()
        if row is None or (row.claimed_until is not None and row.claimed_until > now):
            return None
        if row.state == ReplayState.WAITING:
            if HookReplay.objects.filter(state=ReplayState.RUNNING.value).count() >= MAX_RUNNING:
                return None
            row.state, row.started_at = ReplayState.RUNNING.value, now
        elif row.state != ReplayState.RUNNING:
            return None
        row.turn += 1
        row.seen_at, row.claimed_until = now, now + SLICE_LEASE
        row.save(update_fields=["state", "started_at", "turn", "seen_at", "claimed_until"])
        return row


def _slice(row: HookReplay, slice_s: float) -> dict[str, object]:
    """What is to be written of it. Raises HookRefusal where the policy cannot be read."""
    begin_ts = time.monotonic()
    judge, source = ReplayJudge(policy_replayed(row)), replay_source()
    tally = Tally.from_json(row.tally)
    changes: dict[str, object] = {}
    if row.num_total is None:
        changes["num_total"] = source.count(row.start_at, row.end_at)
    place = None
    if row.place_at is not None and row.place_id is not None:
        place = RecordPoint(row.place_at, row.place_id)
    is_done = is_over = False
    while not (is_done or is_over):
        num_read = 0
        page = source.page(
            row.start_at, row.end_at, after=place, limit=PAGE_RECORDS, with_texts=row.looks_at_texts
        )
        for past in page:
            tally.add(past, judge.judge(past))
            place, num_read = past.place, num_read + 1
            if time.monotonic() - begin_ts > slice_s:
                is_over = True
                break
        is_done = not is_over and num_read < PAGE_RECORDS
    if place is not None:
        changes |= {"place_at": place.created_at, "place_id": place.record_id}
    changes["tally"] = tally.to_json()
    if is_done:
        return changes | _ended(ReplayState.DONE, "")
    if row.started_at is not None and timezone.now() - row.started_at > MAX_TIME:
        return changes | _ended(ReplayState.FAILED, TOO_LONG)
    return changes


def _ended(state: ReplayState, reason: str) -> dict[str, object]:
    return {"state": state.value, "reason": reason[:MAX_REASON_LENGTH]}
