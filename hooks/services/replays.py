"""Asking for replays, ending them, and seeing to those that nobody goes on with.

A replay is long work in the background of a service that has other things to do: MAX_RUNNING at once,
MAX_WAITING behind them, and each ends after MAX_TIME, with what was found until then.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from accounts.actors import Actor, current_actor
from accounts.history import change_add
from hooks.contracts.policies import Policy, PolicyMode
from hooks.contracts.refusals import AlreadyTaken, InvalidField, NotThere
from hooks.models import HookPolicy, HookReplay
from hooks.models.policy import POLICY_KIND
from hooks.models.replay import OPEN_STATES, REPLAY_ACTION, ReplayState
from hooks.replaying import point_refusal
from hooks.services.columns import WRITTEN_COLUMNS, policy_of, write_columns
from hooks.services.policy_checks import check_policy
from hooks.services.replay_source import advance_send

SPANS = {"hour": timedelta(hours=1), "day": timedelta(hours=24)}
MAX_RUNNING, MAX_WAITING = 2, 20
MAX_TIME = timedelta(minutes=30)
KEPT_TIME = timedelta(days=7)
# A slice takes a few seconds; one that is gone so long does not come back.
SLICE_LEASE = timedelta(seconds=60)
MAX_LOSSES = 3
# What nobody went on with for so long is shown as waiting for a worker.
QUIET_TIME = timedelta(seconds=30)
TOO_LONG = "it took longer than 30 minutes: what was found until then is shown"
LOST = "the worker died in the middle of it, several times"
# Any number that no other lock of this database uses: "replay" in ASCII.
_LOCK = 0x7265706C6179
_OPEN = [state.value for state in OPEN_STATES]


def replay_start(*, policy: Policy, span: str, looks_at_texts: bool, is_draft: bool = False) -> HookReplay:
    """Ask what `policy` would have done, whatever its mode. `policy.policy_id` is that of the saved one, 0
    for a draft of a new one. Raises InvalidField where it could not be saved or its point cannot be replayed,
    and AlreadyTaken where too many wait."""
    row = replay_create(policy=policy, span=span, looks_at_texts=looks_at_texts, is_draft=is_draft)
    transaction.on_commit(lambda: advance_send(row.pk))
    return row


def replay_create(*, policy: Policy, span: str, looks_at_texts: bool, is_draft: bool) -> HookReplay:
    """As `replay_start`; nobody is told of it yet."""
    if span not in SPANS:
        raise InvalidField("span", f"expected one of {', '.join(SPANS)}")
    if policy.fault:
        raise InvalidField(None, f"the policy cannot be read: {policy.fault}")
    check_policy(policy, description="")
    refusal = point_refusal(policy.point)
    if refusal:
        raise InvalidField("point", refusal)
    actor, now = current_actor(), timezone.now()
    with taking_turns():
        _check_room()
        row = HookReplay.objects.create(
            policy_id=policy.policy_id or None,
            policy=policy_columns(policy),
            is_draft=is_draft,
            start_at=now - SPANS[span],
            end_at=now,
            looks_at_texts=looks_at_texts,
            asked_by_id=actor.user_id,
            asked_by=actor.name[:200],
        )
        change_add(
            action=REPLAY_ACTION,
            kind=POLICY_KIND,
            subject_id=policy.policy_id or None,
            label=policy.name,
            changes=_told(row, actor),
        )
    return row


def replay_get(*, replay_id: int, policy_id: int | None = None) -> HookReplay:
    """As it is now; with `policy_id`, one of that policy. Raises NotThere."""
    rows = HookReplay.objects.filter(pk=replay_id)
    if policy_id is not None:
        rows = rows.filter(policy_id=policy_id)
    found: HookReplay | None = rows.first()
    if found is None:
        raise NotThere(None, "there is no such replay")
    return found


def replay_cancel(*, replay_id: int) -> HookReplay:
    """End it; what was found stays. One that has ended stays as it is. Raises NotThere."""
    now = timezone.now()
    HookReplay.objects.filter(pk=replay_id, state__in=_OPEN).update(
        state=ReplayState.CANCELLED.value, finished_at=now, seen_at=now, claimed_until=None
    )
    waiting_advance()
    return replay_get(replay_id=replay_id)


def replay_resume(*, replay_id: int) -> HookReplay:
    """Go on from where it was, after it was cancelled or failed, or where nobody goes on with it. One that is
    done stays as it is. Raises NotThere, and AlreadyTaken where a worker has it now, or too many wait."""
    now = timezone.now()
    with taking_turns():
        row = replay_get(replay_id=replay_id)
        if row.state == ReplayState.DONE:
            return row
        is_claimed = row.claimed_until is not None and row.claimed_until > now
        # Between two slices nobody has claimed it, and its time would begin anew.
        is_going_on = row.state == ReplayState.RUNNING and now - row.seen_at < QUIET_TIME
        if is_claimed or is_going_on:
            raise AlreadyTaken(None, "a worker has it just now")
        if row.state not in OPEN_STATES:
            _check_room()
        HookReplay.objects.filter(pk=replay_id).update(
            state=ReplayState.WAITING.value,
            reason="",
            num_losses=0,
            claimed_until=None,
            started_at=None,
            finished_at=None,
            seen_at=now,
        )
    transaction.on_commit(lambda: advance_send(replay_id))
    return replay_get(replay_id=replay_id)


def _check_room() -> None:
    """While taking turns."""
    if HookReplay.objects.filter(state__in=_OPEN).count() >= MAX_RUNNING + MAX_WAITING:
        raise AlreadyTaken(None, f"{MAX_RUNNING + MAX_WAITING} replays run or wait: cancel one, or wait")


def waiting_advance() -> None:
    """Have workers take those whose turn it is."""
    free = MAX_RUNNING - HookReplay.objects.filter(state=ReplayState.RUNNING.value).count()
    if free > 0:
        rows = HookReplay.objects.filter(state=ReplayState.WAITING.value).order_by("pk")
        for replay_id in rows.values_list("pk", flat=True)[:free]:
            advance_send(replay_id)


def replays_tend(*, now: datetime | None = None) -> None:
    """Housekeeping: lost slices are begun again, a few times; what takes too long ends; what is old goes."""
    now = now or timezone.now()
    HookReplay.objects.filter(created_at__lt=now - KEPT_TIME).delete()
    running = HookReplay.objects.filter(state=ReplayState.RUNNING.value)
    _fail(running.filter(started_at__lt=now - MAX_TIME), TOO_LONG, now)
    lost = running.filter(claimed_until__lt=now)
    _fail(lost.filter(num_losses__gte=MAX_LOSSES - 1), LOST, now)
    for replay_id in list(lost.values_list("pk", flat=True)):
        lost.filter(pk=replay_id).update(num_losses=F("num_losses") + 1, claimed_until=None, seen_at=now)
        advance_send(replay_id)
    # Between slices: its message was lost, or the broker was away.
    quiet = running.filter(Q(claimed_until__isnull=True), seen_at__lt=now - QUIET_TIME)
    for replay_id in list(quiet.values_list("pk", flat=True)):
        advance_send(replay_id)
    waiting_advance()


def policy_columns(policy: Policy) -> dict[str, object]:
    """A policy as JSON, to be read again by `policy_replayed`."""
    row = HookPolicy()
    write_columns(row, policy, description="")
    return {name: getattr(row, name) for name in WRITTEN_COLUMNS}


def policy_replayed(row: HookReplay) -> Policy:
    """Which policy is replayed. Raises InvalidField where it could not be written so any more."""
    return replace(policy_of(HookPolicy(pk=row.policy_id or 0, **row.policy)), mode=PolicyMode.ENFORCE)


def _fail(rows: QuerySet[HookReplay], reason: str, now: datetime) -> None:
    rows.update(state=ReplayState.FAILED.value, reason=reason, finished_at=now, claimed_until=None)


def _told(row: HookReplay, actor: Actor) -> dict[str, list[object]]:
    """For the history: a condition that nobody saved is kept, since it could ask of texts what it likes."""
    told: dict[str, list[object]] = {
        "records of": [None, f"{row.start_at.isoformat()} to {row.end_at.isoformat()}"],
        "kept texts": [None, "looked at" if row.looks_at_texts else "not looked at"],
    }
    if row.is_draft:
        told["condition"] = [None, str(row.policy["condition"])[:2000]]
    return told


@contextmanager
def taking_turns() -> Iterator[None]:
    """A transaction in which nobody else begins a replay."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        yield
