"""Lines of the journal, and how a torn or damaged one is told from a whole one.

    <CRC-32 of the payload, eight hexadecimal digits> <payload: JSON without line breaks>\n

    ["open", row]         a request begins (or more is known of it): the record that it would have if it
                          were interrupted now
    ["progress", [...]]   one list for each running request: its id and `PROGRESS_COLUMNS`
    ["end", row]          a request's record, written here because the database did not take it
    ["closed", [id, ...]] these are in the database (or in quarantine): nothing is to be done for them

A later line about a request supersedes earlier ones. No line holds text of a prompt, an answer, or a key.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson

from inference.ledger.rows import PROGRESS_COLUMNS, Progress, RecordRow

_CRC_CHARS = 8


@dataclass(frozen=True, slots=True)
class Opened:
    row: RecordRow


@dataclass(frozen=True, slots=True)
class Progressed:
    requests: tuple[Progress, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    row: RecordRow


@dataclass(frozen=True, slots=True)
class Closed:
    record_ids: tuple[UUID, ...]


Entry = Opened | Progressed | Ended | Closed


def encode(entry: Entry) -> bytes:
    """The entry as one line."""
    match entry:
        case Opened(row):
            payload = b'["open",' + row.json + b"]"
        case Ended(row):
            payload = b'["end",' + row.json + b"]"
        case Progressed(requests):
            payload = orjson.dumps(["progress", [_progress(request) for request in requests]])
        case Closed(record_ids):
            payload = orjson.dumps(["closed", [str(record_id) for record_id in record_ids]])
    return b"%08x %s\n" % (zlib.crc32(payload), payload)


def decode(line: bytes) -> Entry:
    """Raises ValueError for everything that `encode` did not write."""
    checksum, _, payload = line.rstrip(b"\n").partition(b" ")
    if len(checksum) != _CRC_CHARS or not line.endswith(b"\n") or b"%08x" % zlib.crc32(payload) != checksum:
        raise ValueError("not a whole line")
    try:
        kind, value = orjson.loads(payload)
        return _entry(kind, value)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("not an entry") from error


def read_lines(data: Iterable[bytes]) -> Iterator[Entry | None]:
    """Each line's entry, None for one that is damaged."""
    for line in data:
        try:
            yield decode(line)
        except ValueError:
            yield None


def _entry(kind: str, value: Any) -> Entry:
    match kind:
        case "open":
            return Opened(RecordRow.from_json(value))
        case "end":
            return Ended(RecordRow.from_json(value))
        case "closed":
            return Closed(tuple(UUID(record_id) for record_id in value))
        case "progress":
            return Progressed(tuple(Progress(UUID(item[0]), *item[1:]) for item in value))
    raise ValueError("not a kind of entry")


def _progress(request: Progress) -> Sequence[object]:
    return [str(request.record_id), *(getattr(request, name) for name in PROGRESS_COLUMNS)]
