from __future__ import annotations

from io import StringIO

from skippy_site.supervisor.console import Console, Waiting


def test_lines_have_the_time_since_the_start() -> None:
    shown = StringIO()
    now = iter([100.0, 103.25])
    Console(shown, now=lambda: next(now)).line("Postgres is ready")

    assert shown.getvalue() == "[   3.2 s] Postgres is ready\n"


def test_a_block_keeps_its_lines_together() -> None:
    shown = StringIO()
    Console(shown).block(["user  admin", "", "key  sk-…"])

    lines = shown.getvalue().splitlines()
    assert lines[2:5] == ["  user  admin", "", "  key  sk-…"]
    assert lines[1] == lines[5] == "─" * 15


def test_a_wait_says_what_it_waits_for() -> None:
    waiting = Waiting("the server is starting")
    waiting.detail = "loading the model"

    assert waiting.line() == "  … the server is starting (0 s: loading the model)"
