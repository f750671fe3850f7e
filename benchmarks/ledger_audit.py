"""Holds what clients saw against the service's books: records, hours, /v1/usage, CSV, and limits.

Needs Django, set up for the service's state folder. What is found wrong is a list of sentences.
"""

from __future__ import annotations

import csv
import io
import json
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attempts import Attempt, Tokens
from django.core.management import call_command
from django.db import connection

from accounts.keys import LAST_LENGTH, VISIBLE_PREFIX_LENGTH
from inference.ledger.entries import Opened, decode

SHOWN = 10
_TOKENS = "sum(num_input_tokens)::bigint, sum(num_output_tokens)::bigint, sum(num_cached_tokens)::bigint"
_BUDGETS = "scope, owner_id, day_tokens, week_tokens, month_tokens"


@dataclass(frozen=True)
class Record:
    outcome: str
    status: int
    max_tokens: int
    tokens: Tokens


def rows(statement: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())


def command(*arguments: str) -> None:
    """A command of manage.py, without what it says."""
    call_command(*arguments, stdout=io.StringIO())


def read_records() -> dict[str, list[Record]]:
    """By request id."""
    found: dict[str, list[Record]] = defaultdict(list)
    for request_id, outcome, status, max_tokens, *tokens in rows(
        "SELECT request_id, outcome, status, max_tokens, num_input_tokens, num_output_tokens, "
        "num_cached_tokens FROM inference_generationrecord"
    ):
        found[request_id].append(Record(outcome, status, max_tokens, Tokens(*tokens)))
    return found


def opened_ids(journals: Iterable[Path]) -> set[str]:
    """The ids of all requests that passed authentication: each has a line in its process's journal."""
    found = set()
    for path in journals:
        for line in path.read_bytes().splitlines(keepends=True):
            try:
                entry = decode(line)
            except ValueError:
                continue  # cut off by a kill
            if isinstance(entry, Opened):
                found.add(json.loads(entry.row.json)["request_id"])
    return found


def judge_attempts(
    attempts: Sequence[Attempt], records: Mapping[str, list[Record]], opened: set[str]
) -> list[str]:
    """Each request that passed authentication has exactly one record, and the one that its client saw."""
    wrong = []
    for one in attempts:
        own = records.get(one.request_id, [])
        if len(own) != (one.request_id in opened):
            wrong.append(f"{len(own)} records of a request that was opened: {one}")
        elif (one.status == 200 or one.has_limits) and not own:
            wrong.append(f"no record of a request to a valid key: {one}")
        if not own:
            continue
        record = own[0]
        if not 0 <= record.tokens.num_output <= one.max_tokens:
            wrong.append(f"{record} of {one}")
        if one.is_whole and not one.has_error:
            if record.outcome != "completed" or (one.usage is not None and one.usage != record.tokens):
                wrong.append(f"{record} of an answer that was whole: {one}")
        elif one.status > 200 and record.status != one.status and record.outcome != "interrupted":
            # Who was refused does not wait for his record, so the server can die with it.
            wrong.append(f"{record} of a refusal: {one}")
    strangers = records.keys() - {one.request_id for one in attempts}
    return [*wrong, *(f"a record of a request that nobody made: {one}" for one in strangers)]


def judge_sums(port: int, keys: Mapping[int, str]) -> list[str]:
    """Records equal hours equal /v1/usage equal CSV, for each key; `keys` are plaintexts by id."""
    wrong = []
    in_records = _by_key(f"SELECT key_id, count(*), {_TOKENS} FROM inference_generationrecord GROUP BY 1")
    in_hours = _by_key(
        f"SELECT key_id, sum(num_requests)::bigint, {_TOKENS} FROM inference_usagebucket GROUP BY 1"
    )
    if in_records != in_hours:
        wrong.append(f"records {in_records}, hours {in_hours}")
    for key_id, key in keys.items():
        wanted = in_records.get(key_id, (0, 0, 0, 0))
        told = json.loads(_get(port, key, "/v1/usage"))
        cached = told["prompt_tokens_details"]["cached_tokens"]
        usage = (told["requests"], told["prompt_tokens"], told["completion_tokens"], cached)
        lines = list(csv.DictReader(io.StringIO(_get(port, key, "/v1/usage?format=csv").decode())))
        names = ("prompt_tokens", "completion_tokens", "cached_tokens")
        table = (len(lines), *(sum(int(line[name]) for line in lines) for name in names))
        if not wanted == usage == table:
            wrong.append(f"key {key_id}: records {wanted}, /v1/usage {usage}, CSV {table}")
    return wrong


def limits_at_rest() -> bool:
    """Whether nothing is reserved any more."""
    return not rows("SELECT 1 FROM accounts_limitreservation LIMIT 1") and not rows(
        "SELECT 1 FROM accounts_limitcounter WHERE num_open <> 0 OR num_reserved_tokens <> 0 LIMIT 1"
    )


def judge_limits() -> tuple[int, list[str]]:
    """The drift of the counters of limits (tokens and requests), and where it is."""
    wrong = [
        f"{scope} {owner_id} still holds {num_open} requests and {num_tokens} tokens"
        for scope, owner_id, num_open, num_tokens in rows(
            "SELECT scope, owner_id, num_open, num_reserved_tokens FROM accounts_limitcounter "
            "WHERE num_open <> 0 OR num_reserved_tokens <> 0"
        )
    ]
    drift = sum(
        sum(found)
        for found in rows("SELECT abs(num_open), abs(num_reserved_tokens) FROM accounts_limitcounter")
    )
    before = rows(f"SELECT {_BUDGETS} FROM accounts_limitcounter ORDER BY 1, 2")
    command("limits_recount")
    after = rows(f"SELECT {_BUDGETS} FROM accounts_limitcounter ORDER BY 1, 2")
    for was, is_now in zip(before, after, strict=True):
        if was != is_now:
            wrong.append(f"{was[0]} {was[1]}: budgets were {was[2:]}, its records say {is_now[2:]}")
        drift += sum(abs(one - other) for one, other in zip(was[2:], is_now[2:], strict=True))
    return int(drift), wrong


def judge_secrecy(folders: Sequence[Path], keys: Iterable[str]) -> list[str]:
    """No file has a secret part: not the logs, the journals, the tables, or Postgres's own log of changes."""
    secrets = {key[VISIBLE_PREFIX_LENGTH:-LAST_LENGTH].encode() for key in keys}
    return [
        f"a key's secret part is in {path.name}"
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and any(map(path.read_bytes().__contains__, secrets))
    ]


def outcomes(records: Mapping[str, list[Record]]) -> dict[str, int]:
    return dict(Counter(one.outcome for own in records.values() for one in own))


def _by_key(statement: str) -> dict[int, tuple[int, ...]]:
    return {key_id: tuple(map(int, counts)) for key_id, *counts in rows(statement)}


def _get(port: int, key: str, path: str) -> bytes:
    asked = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", headers={"Authorization": f"Bearer {key}"}
    )
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return bytes(answer.read())
