import io

import pytest

from skippy_site.provision.progress import Board, ReportedStep


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_in_a_log_running_steps_are_told_every_few_seconds(clock: Clock) -> None:
    stream = io.StringIO()
    board = Board(stream, is_terminal=False, clock=clock)
    board.step("compile").update("5 %")
    board.step("model").update("3 of 93 MB")
    board.tick()
    assert stream.getvalue() == ""
    clock.now += 65
    board.tick()
    board.tick()
    assert stream.getvalue() == "  1:05  compile: 5 % · model: 3 of 93 MB\n"


def test_what_has_ended_is_a_line_of_its_own_and_no_longer_shown(clock: Clock) -> None:
    stream = io.StringIO()
    board = Board(stream, is_terminal=False, clock=clock)
    step = board.step("model")
    step.update("3 of 93 MB")
    clock.now += 7
    step.end("is here")
    clock.now += 7
    board.tick()
    assert stream.getvalue() == "  0:07  model: is here\n"


def test_on_a_terminal_one_line_is_rewritten_and_cut_to_its_width(clock: Clock) -> None:
    stream = io.StringIO()
    board = Board(stream, is_terminal=True, num_columns=40, clock=clock)
    step = board.step("compile")
    step.update("x" * 100)
    clock.now += 1
    board.tick()
    assert stream.getvalue() == "\r\x1b[K" + ("  0:01  compile: " + "x" * 100)[:39]
    step.end("done")
    assert stream.getvalue().endswith("\r\x1b[K  0:01  compile: done\n")


def test_nothing_to_do_prints_nothing(clock: Clock) -> None:
    stream = io.StringIO()
    board = Board(stream, is_terminal=True, clock=clock)
    board.step("never started")
    with board.ticking():
        clock.now += 60
        board.tick()
    assert stream.getvalue() == ""


def test_while_ticking_the_display_moves_by_itself() -> None:
    stream = io.StringIO()
    # A clock that runs a hundred seconds a call: every look at it finds the interval over.
    times = iter(range(0, 10**9, 100))
    board = Board(stream, is_terminal=False, clock=lambda: float(next(times)))
    with board.ticking():
        board.step("compile").update("5 %")
        for _ in range(200):
            if stream.getvalue():
                break
            import time

            time.sleep(0.02)
    assert "compile: 5 %" in stream.getvalue()


def test_a_reported_step_does_not_flood_its_log(clock: Clock) -> None:
    lines: list[str] = []
    step = ReportedStep(lines.append, interval_s=5, clock=clock)
    for percent in range(4):
        step.update(f"{percent} %")
        clock.now += 2
    step.end("done")
    assert lines == ["0 %", "3 %", "done"]
