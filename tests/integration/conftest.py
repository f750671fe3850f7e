"""What tests with a real Postgres share."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection


@pytest.fixture
def in_threads() -> Callable[..., list[object]]:
    """Runs each call in a thread with a connection of its own, all at once; results or errors."""

    def run(*calls: Callable[[], object]) -> list[object]:
        def one(call: Callable[[], object]) -> object:
            try:
                return call()
            except Exception as error:
                return error
            finally:
                connection.close()

        with ThreadPoolExecutor(len(calls)) as threads:
            return [future.result() for future in [threads.submit(one, call) for call in calls]]

    return run
