"""Finds or fetches the model, in a process of its own: it may download for minutes and loads llama.cpp.

Run as `python -m skippy_site.supervisor.model_step`. Each line on standard output is a JSON object
with one key: `progress` (a sentence), `projector` (its file, if there is to be one), `path` (the model's
file; the last line) or `problem` (what a person
must do; then the exit code is 1).
"""

from __future__ import annotations

import json
import sys

from skippy_site.env import EnvironmentProblem, read_environment
from skippy_site.state import StateFolder


def main() -> int:
    from skippy_site.provision.model_source import resolve_model, resolve_projector
    from skippy_site.provision.problem import ProvisionProblem

    try:
        environment, state = read_environment(), StateFolder.from_environment()
        path = resolve_model(environment, state, lambda text: _say("progress", text))
        projector = resolve_projector(environment, state, lambda text: _say("progress", text))
    except ProvisionProblem as problem:
        advice = f": {problem.advice}" if problem.advice else ""
        _say("problem", f"{problem}{advice}")
        return 1
    except EnvironmentProblem as problem:
        _say("problem", str(problem))
        return 1
    if projector is not None:
        _say("projector", str(projector))
    _say("path", str(path))
    return 0


def _say(key: str, text: str) -> None:
    sys.stdout.write(json.dumps({key: text}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
