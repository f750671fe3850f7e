"""Calls to Postgres that can be given up, and waiting for what it says by itself.

A cancelled psycopg call asks the server to cancel the statement and then waits for its answer. A server
that hangs gives none, so whoever gave up waits as long as before. Here the call is left alone and its
connection cut under it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from typing import Any

import psycopg


async def execute(
    connection: psycopg.AsyncConnection[Any], statement: bytes, *parameters: Any
) -> psycopg.AsyncCursor[Any]:
    """As `connection.execute`, and ends within a second once it is cancelled; the connection is then of
    no more use, and its owner has to close it. Raises psycopg.Error."""
    call = asyncio.ensure_future(connection.execute(statement, *parameters))
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        await _cut(connection, call)
        raise


async def readable(connection: psycopg.AsyncConnection[Any]) -> None:
    """Wait until the server has sent something on an idle connection. psycopg's own wait for notifications
    looks ten times a second."""
    loop, arrived = asyncio.get_running_loop(), asyncio.Event()
    descriptor = connection.fileno()
    loop.add_reader(descriptor, arrived.set)
    try:
        await arrived.wait()
    finally:
        loop.remove_reader(descriptor)


async def _cut(connection: psycopg.AsyncConnection[Any], call: asyncio.Future[Any]) -> None:
    """End the connection, so that the call on it fails. The descriptor stays open until it has: the event
    loop still watches it."""
    call.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    with (
        contextlib.suppress(OSError, psycopg.Error),
        socket.socket(fileno=os.dup(connection.fileno())) as wire,
    ):
        wire.shutdown(socket.SHUT_RDWR)
    await asyncio.wait([call], timeout=1.0)
