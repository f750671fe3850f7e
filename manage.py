#!/usr/bin/env python3
"""The door for every command: `manage.py serve`, `manage.py api_key_create`, and Django's own."""

import os
import sys


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "skippy_site.settings")
    if sys.argv[1:] == ["serve"]:
        # The supervisor needs no Django: it starts sooner, stays smaller, and works before there
        # is a database or a state folder.
        from skippy_site.supervisor.serve import serve

        return serve()
    if sys.argv[1:2] in (["backup"], ["restore"]):
        # Neither needs Django either, whose settings would begin a state folder that is to be restored.
        from skippy_site.backup.commands import run

        return run(sys.argv[1:])
    try:
        from django.core.management import execute_from_command_line
    except ImportError:
        print("Django is not installed in this Python: run `make serve` once.", file=sys.stderr)
        return 2
    from django.db import DatabaseError

    from skippy_site.env import EnvironmentProblem
    from skippy_site.supervisor.discovery import database_problem

    try:
        execute_from_command_line(sys.argv)
    except EnvironmentProblem as problem:
        print(problem, file=sys.stderr)
        return 2
    except DatabaseError as error:
        print(database_problem(error), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
