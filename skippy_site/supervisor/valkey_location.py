"""Answers where the embedded Valkey of a state folder listens, without starting anything."""

from __future__ import annotations

from pathlib import Path

from skippy_site.state import StateFolder
from skippy_site.supervisor.sockets import socket_folder


def valkey_socket(state: StateFolder) -> Path:
    return socket_folder(state.valkey / "socket", home=state.root, purpose="mq") / "valkey.sock"
