"""Both servers, each as one process for the tests that leave it as it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.servers.live_server import LiveServer

SERVERS = ["daphne", "uvicorn"]
MAX_BODY_BYTES = 256 * 1024


@pytest.fixture(params=SERVERS)
def server_name(request: pytest.FixtureRequest) -> str:
    """For tests that need a process of their own."""
    return str(request.param)


@pytest.fixture(scope="session", params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[LiveServer]:
    """A process with short time limits, shared by all tests that do not stop it."""
    with LiveServer(
        request.param,
        max_body_bytes=MAX_BODY_BYTES,
        header_timeout_s=0.6,
        body_timeout_s=0.6,
        keep_alive_s=1.0,
        linger_s=1.0,
    ) as running:
        yield running
