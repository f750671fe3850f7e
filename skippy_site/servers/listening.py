"""Opens the listening sockets ourselves, because accepted sockets inherit what is set on them.

A small send buffer makes a stalled reader visible after kilobytes, not megabytes; TCP keep-alive
finds clients that vanished without a goodbye.
"""

from __future__ import annotations

import contextlib
import resource
import socket

from skippy_site.servers.contract import ListenConfig, ListenProblem

BACKLOG = 1024
KEEP_ALIVE_IDLE_S = 60
KEEP_ALIVE_INTERVAL_S = 15
KEEP_ALIVE_PROBES = 4
NUM_OTHER_FILES = 512
"""File descriptors that are not client connections: database, logs, model, libraries."""


def open_sockets(config: ListenConfig) -> list[socket.socket]:
    """Listening sockets for every address of `config.host` (localhost may have two).

    Raises ListenProblem with one line that says what is in the way.
    """
    where = f"{config.host}:{config.port}"
    try:
        addresses = socket.getaddrinfo(
            config.host, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except socket.gaierror as problem:
        raise ListenProblem(f"cannot listen at {where}: {problem.strerror}") from None
    _allow_open_files(config.max_connections + NUM_OTHER_FILES)
    unique = list(dict.fromkeys((family, address) for family, _, _, _, address in addresses))
    sockets: list[socket.socket] = []
    port = config.port
    try:
        for family, address in unique:
            sockets.append(
                _listen(family, (address[0], port, *address[2:]), config, is_alone=len(unique) == 1)
            )
            port = sockets[0].getsockname()[1]
    except OSError as problem:
        for opened in sockets:
            opened.close()
        reason = (problem.strerror or str(problem)).lower()
        raise ListenProblem(f"cannot listen at {where}: {reason}") from None
    return sockets


def _listen(
    family: int, address: tuple[object, ...], config: ListenConfig, *, is_alone: bool
) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, config.send_buffer_bytes)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (
            ("TCP_KEEPIDLE", KEEP_ALIVE_IDLE_S),
            ("TCP_KEEPINTVL", KEEP_ALIVE_INTERVAL_S),
            ("TCP_KEEPCNT", KEEP_ALIVE_PROBES),
        ):
            if hasattr(socket, option):  # macOS lacks some
                listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        if family == socket.AF_INET6:
            # "::" alone means both families; beside an IPv4 socket it would take that one's port.
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(not is_alone))
        listener.bind(address)
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def _allow_open_files(num_files: int) -> None:
    """Raise the soft limit of open files, where the hard one allows it: many systems give 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = num_files if hard == resource.RLIM_INFINITY else min(num_files, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
