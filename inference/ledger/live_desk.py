"""Asks all server processes what runs in them, and ends one of it, for the API, the admin and commands.

The answer says from how many processes it came and how many owe theirs: one that hangs says nothing, and
what it has is then unknown, which is not the same as nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import msgspec
import psycopg
from django.db import OperationalError, transaction

from accounts.actors import current_actor
from accounts.audit import change_record
from accounts.models.administrative_change import ChangeAction
from inference.domain.live_requests import LiveRequestStatus
from inference.ledger.database_calls import database_parameters
from inference.ledger.live_questions import (
    CHANNEL,
    SERVER_PREFIX,
    Cancellation,
    LiveQuestion,
    decode_answer,
    encode,
    reply_channel,
)

PATIENCE_S = 2.0
SERVERS_SQL = (
    "SELECT application_name FROM pg_stat_activity "
    "WHERE datname = current_database() AND starts_with(application_name, %s)"
)
CONNECT_PATIENCE_S = 5
HISTORY_KIND = "request"


@dataclass(frozen=True, slots=True)
class LiveRequests:
    """What runs or waits in the `num_servers` processes that there are, oldest first; `num_silent` of them
    did not answer. `num_untold` more run or wait than were asked for."""

    requests: tuple[LiveRequestStatus, ...]
    num_servers: int
    num_silent: int
    num_untold: int = 0

    @classmethod
    def by_age(
        cls,
        requests: Iterable[LiveRequestStatus],
        num_servers: int,
        num_silent: int,
        *,
        num_untold: int = 0,
        max_requests: int | None = None,
    ) -> LiveRequests:
        ordered = sorted(requests, key=lambda request: (request.created_at, request.record_id))
        told = tuple(ordered[:max_requests])
        return cls(told, num_servers, num_silent, num_untold + len(ordered) - len(told))


@dataclass(frozen=True, slots=True)
class CancelledRequest:
    """`request` as it was when it was cancelled; None where no process that answered has it. Where some
    did not answer (`num_silent`), it may be theirs."""

    request: LiveRequestStatus | None
    num_servers: int
    num_silent: int


def live_requests_list(*, patience_s: float = PATIENCE_S) -> LiveRequests:
    """Everything that has not ended. Takes as long as the slowest process, at most `patience_s`. Raises
    Django's OperationalError where the database is away."""
    requests, num_servers, num_silent = _ask(None, patience_s)
    return LiveRequests.by_age(requests, num_servers, num_silent)


def live_request_cancel(
    *, record_id: UUID, user_id: int | None = None, patience_s: float = PATIENCE_S
) -> CancelledRequest:
    """End one request, waiting or running, only if it is `user_id`'s where that is given; its client is told
    `request_cancelled`. Who did it goes into the history. Raises as `live_requests_list`."""
    wish = Cancellation(record_id, user_id, current_actor().name)
    requests, num_servers, num_silent = _ask(wish, patience_s)
    if not requests:
        return CancelledRequest(None, num_servers, num_silent)
    (found,) = requests
    with transaction.atomic():
        change_record(
            action=ChangeAction.CANCELLED,
            kind=HISTORY_KIND,
            subject_id=None,
            label=str(record_id),
            user_id=found.user_id,
            changes={"phase": [found.phase.value, None], "key_id": [found.key_id, None]},
        )
    return CancelledRequest(found, num_servers, num_silent)


def _ask(wish: Cancellation | None, patience_s: float) -> tuple[list[LiveRequestStatus], int, int]:
    """What was answered; how many processes there are; how many of them have not said their last word. A
    wish is asked no further once somebody has fulfilled it."""
    reply_to = reply_channel(uuid4())
    parameters: dict[str, Any] = {**database_parameters(), "connect_timeout": CONNECT_PATIENCE_S}
    try:
        with psycopg.connect(**parameters, autocommit=True) as connection:
            connection.execute(f"LISTEN {reply_to}".encode())
            servers = _servers(connection)
            question = LiveQuestion(reply_to, wish)
            connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, encode(question)))
            return _gather(connection, servers, patience_s, is_one_enough=wish is not None)
    except psycopg.OperationalError as error:
        raise OperationalError(type(error).__name__) from None


def _servers(connection: psycopg.Connection[Any]) -> set[str]:
    """The processes that listen, by their connections."""
    rows = connection.execute(SERVERS_SQL, (SERVER_PREFIX,))
    return {name.removeprefix(SERVER_PREFIX) for (name,) in rows}


def _gather(
    connection: psycopg.Connection[Any], servers: set[str], patience_s: float, *, is_one_enough: bool
) -> tuple[list[LiveRequestStatus], int, int]:
    requests: list[LiveRequestStatus] = []
    silent = set(servers)
    deadline_ts = time.monotonic() + patience_s
    while silent and not (is_one_enough and requests):
        left_s = deadline_ts - time.monotonic()
        if left_s <= 0:
            break
        for notify in connection.notifies(timeout=left_s, stop_after=1):
            try:
                answer = decode_answer(notify.payload)
            except msgspec.DecodeError:
                continue
            requests += answer.requests
            if answer.is_last:
                silent.discard(answer.server)
    return requests, len(servers), len(silent)
