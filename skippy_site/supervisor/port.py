"""Finds out before anything heavy starts whether the service can listen where it should."""

from __future__ import annotations

import errno
import socket

from skippy_site.supervisor.problems import StartProblem


def check_port_is_free(host: str, port: int) -> None:
    """Bind and let go. Raises StartProblem with one line that names the setting to change."""
    try:
        candidates = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise StartProblem(
            f"SKIPPY_HOST: {host!r} is not an address of this machine ({error.strerror})"
        ) from None
    family, kind, protocol, _, address = candidates[0]
    with socket.socket(family, kind, protocol) as probe:
        # As servers do: a port in TIME_WAIT is free, one that somebody listens at is not.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
            probe.listen(1)
        except OSError as error:
            raise StartProblem(_sentence(host, port, error)) from None


def _sentence(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use by another program: stop it, or set SKIPPY_PORT"
    if error.errno == errno.EACCES:
        return f"this user may not listen at port {port}: set SKIPPY_PORT to 1024 or more"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"SKIPPY_HOST: {host!r} is not an address of this machine"
    return f"cannot listen at {host}:{port}: {error.strerror}"
