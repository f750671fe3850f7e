"""Finds or fetches the model, in a process of its own: it may download for minutes and loads llama.cpp.

Run as `python -m skippy_site.supervisor.model_step`. Each line on standard output is a JSON object
with one key: `progress` (a sentence), `path` (the file; the last line) or `problem` (what a person
must do; then the exit code is 1).
"""

from __future__ import annotations

import json
import sys

from skippy_site.env import EnvironmentProblem, read_environment
from skippy_site.state import StateFolder


def main() -> int:
    from skippy_site.provision.model_source import resolve_model
    from skippy_site.provision.problem import ProvisionProblem

    try:
        path = resolve_model(
            read_environment(), StateFolder.from_environment(), lambda text: _say("progress", text)
        )
    except ProvisionProblem as problem:
        advice = f": {problem.advice}" if problem.advice else ""
        _say("problem", f"{problem}{advice}")
        return 1
    except EnvironmentProblem as problem:
        _say("problem", str(problem))
        return 1
    _say("path", str(path))
    return 0


def _say(key: str, text: str) -> None:
    sys.stdout.write(json.dumps({key: text}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
