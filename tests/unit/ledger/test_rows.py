from uuid import UUID

import orjson
import pytest

from inference.domain.cache_retention import CacheRetention
from inference.domain.events import Usage
from inference.domain.outcomes import HookDecision
from inference.domain.priority import PriorityClass
from inference.domain.rejection_reason import RejectionReason
from inference.ledger.rows import COLUMNS, PROGRESS_COLUMNS, Progress, RecordRow
from tests.ledger_parts import row, summary


def columns(**changes) -> dict:
    return orjson.loads(row(**changes).json)


def test_a_row_has_each_column_of_the_table_and_no_other():
    assert tuple(columns()) == COLUMNS
    assert set(PROGRESS_COLUMNS) < set(COLUMNS)


def test_what_is_not_known_is_zero_or_empty_or_null():
    row = columns(usage=None, finish_reason=None)

    assert (row["num_input_tokens"], row["num_output_tokens"], row["finish_reason"]) == (0, 0, "")
    assert (row["session"], row["queue_s"], row["time_per_token_s"]) == ("", None, None)
    assert row["cache_retention"] is None


def test_everything_that_is_known_is_in_the_row():
    row = columns(
        usage=Usage(10, 5, 2, 3, 1),
        submitted_s=0.25,
        started_s=0.5,
        first_token_s=1.0,
        last_token_s=3.0,
        session=2**64 - 1,
        priority=PriorityClass.BATCH,
        rejection_reason=RejectionReason.QUEUE_FULL,
        metadata={"a": "b"},
        cache_retention=CacheRetention.IN_MEMORY,
        hook_decisions=(HookDecision("p", "before", ("deny",), "applied", "word"),),
    )

    assert (row["num_cached_tokens"], row["num_reasoning_tokens"], row["num_injected_tokens"]) == (2, 3, 1)
    assert (row["queue_s"], row["first_token_s"], row["time_per_token_s"]) == (0.25, 1.0, 0.5)
    assert (row["session"], row["priority"], row["rejection_reason"]) == ("f" * 16, "batch", "queue_full")
    assert (row["metadata"], row["cache_retention"]) == ({"a": "b"}, "in_memory")
    assert row["hook_decisions"] == [
        {
            "policy": "p",
            "point": "before",
            "actions": ["deny"],
            "result": "applied",
            "reason": "word",
            "policy_id": 0,
            "choice": None,
            "elapsed_ms": 0.0,
            "injected_tokens": 0,
            "discarded_tokens": 0,
        }
    ]


@pytest.mark.parametrize("text", ["a\0b", "x" * 10_000, "\ud800", "\U0001f600" * 600])
def test_text_of_callers_is_made_to_fit(text):
    row = columns(model=text, end_user=text, metadata={"key": text})

    assert len(row["model"]) <= 200 and len(row["end_user"]) <= 512
    assert "\0" not in row["model"] + row["end_user"] + row["metadata"]["key"]


def test_progress_is_what_changes_while_a_request_runs():
    made = summary(usage=Usage(10, 3, 2))

    progress = Progress.of(made)

    assert (progress.record_id, progress.num_output_tokens) == (made.record_id, 3)
    columns = orjson.loads(RecordRow.of(made).json)
    assert {name: getattr(progress, name) for name in PROGRESS_COLUMNS} == {
        name: columns[name] for name in PROGRESS_COLUMNS
    }


@pytest.mark.parametrize("value", [{}, {"id": "x"}])
def test_what_has_no_id_is_no_row(value):
    with pytest.raises((KeyError, ValueError)):
        RecordRow.from_json(value)
    assert RecordRow.from_json({"id": str(UUID(int=7))}).record_id == UUID(int=7)
