"""What is asked of all server processes about what runs in them, and what they answer: NOTIFY's payloads.

Only the process that serves a request knows how far it is and can end it, and which one that is stands
nowhere. To write it down once a second would cost every second; so nothing is written, and who wants to
know asks all of them through the database that they share. A payload has less than 8,000 bytes (Postgres,
NOTIFY), so an answer comes in parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from uuid import UUID

import msgspec

from inference.domain.live_requests import LiveRequestStatus

CHANNEL = "skippy_live_requests"
# By its connection's name a process is known to be one that answers; Postgres cuts names at 63 bytes.
SERVER_PREFIX = "skippy-live-requests "
MAX_PAYLOAD_BYTES = 7_900


class Cancellation(msgspec.Struct, frozen=True):
    """End this request, if it is (where `user_id` is given) that user's. `actor` is who wishes it."""

    record_id: UUID
    user_id: int | None
    actor: str


class LiveQuestion(msgspec.Struct, frozen=True):
    """What runs? Or, with `cancel`: end that one. The answers go to the channel `reply_to`. With
    `max_requests` each process tells so many of its requests, the oldest, and counts the rest."""

    reply_to: str
    cancel: Cancellation | None = None
    max_requests: int | None = None


class LiveAnswer(msgspec.Struct, frozen=True):
    """A part of one process's answer: what runs there, or what it has cancelled. `num_untold` more run
    there than were asked for."""

    server: str
    requests: tuple[LiveRequestStatus, ...] = ()
    is_last: bool = True
    num_untold: int = 0


def reply_channel(token: UUID) -> str:
    """Where one who asks listens; a name that needs no quoting in SQL."""
    return f"skippy_reply_{token.hex}"


def encode(message: LiveQuestion | LiveAnswer) -> str:
    return msgspec.json.encode(message).decode()


def decode_question(payload: str) -> LiveQuestion:
    """Raises msgspec.DecodeError (or its ValidationError) where it is none of ours."""
    return msgspec.json.decode(payload, type=LiveQuestion)


def decode_answer(payload: str) -> LiveAnswer:
    """Raises msgspec.DecodeError (or its ValidationError) where it is none of ours."""
    return msgspec.json.decode(payload, type=LiveAnswer)


def answer_payloads(
    server: str, requests: Iterable[LiveRequestStatus], *, num_untold: int = 0
) -> Iterator[str]:
    """One process's whole answer in as many payloads as it needs, at least one."""
    num_empty_bytes = len(msgspec.json.encode(LiveAnswer(server, is_last=False, num_untold=num_untold)))
    part: list[LiveRequestStatus] = []
    num_bytes = num_empty_bytes
    for request in requests:
        num_more = len(msgspec.json.encode(request)) + 1
        if part and num_bytes + num_more > MAX_PAYLOAD_BYTES:
            yield encode(LiveAnswer(server, tuple(part), is_last=False))
            part, num_bytes = [], num_empty_bytes
        part.append(request)
        num_bytes += num_more
    yield encode(LiveAnswer(server, tuple(part), num_untold=num_untold))
