import orjson

from inference.domain.events import Usage
from inference.ledger.entries import Closed, Ended, Opened, Progressed, encode
from inference.ledger.replay import unfinished
from inference.ledger.rows import Progress, RecordRow
from tests.ledger_parts import Live, row, summary


def lines(*entries) -> list[bytes]:
    return [encode(entry) for entry in entries]


def test_what_ended_comes_first_and_in_order_and_what_runs_has_its_last_progress():
    first, second = row("a"), row("b")
    live = Live(summary("c"))
    opened = Opened(RecordRow.of(live.summary_now()))
    live.usage = Usage(10, 3, 4)
    early = Progressed((Progress.of(live.summary_now()),))
    live.usage, live.ending = Usage(10, 7, 4), summary("c", record_id=live.record_id, total_s=9.0)
    late = Progressed((Progress.of(live.summary_now()),))

    todo = unfinished(lines(opened, Opened(second), early, Ended(second), Opened(first), late, Ended(first)))

    assert todo.ended == (second, first)
    (interrupted,) = [orjson.loads(row.json) for row in todo.interrupted]
    assert (interrupted["outcome"], interrupted["error_code"]) == ("interrupted", "interrupted")
    assert (interrupted["num_output_tokens"], interrupted["num_cached_tokens"]) == (7, 4)
    assert interrupted["total_s"] == 9.0 and interrupted["finished_at"].startswith("2026-11-29T12:00:09")
    assert len(todo.rows) == 3


def test_what_is_closed_is_done():
    done = row("a")

    todo = unfinished(lines(Opened(done), Ended(done), Closed((done.record_id,))))

    assert todo.rows == ()


def test_the_last_opening_line_counts():
    live = Live(summary("a", model=""))
    early = Opened(RecordRow.of(live.summary_now()))
    live.ending = summary("a", record_id=live.record_id, model="m")

    (only,) = unfinished(lines(early, Opened(RecordRow.of(live.summary_now())))).rows

    assert orjson.loads(only.json)["model"] == "m"


def test_damaged_lines_are_counted_and_passed_over():
    todo = unfinished(
        [b"\n", b"rubbish\n", *lines(Ended(row("a"))), b"\xff" * 90, encode(Ended(row("b")))[:-9]]
    )

    assert (len(todo.rows), todo.num_damaged_lines) == (1, 4)


def test_progress_of_something_unknown_is_nothing():
    assert unfinished(lines(Progressed((Progress.of(summary()),)))).rows == ()
