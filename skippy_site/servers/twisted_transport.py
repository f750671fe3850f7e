"""Twisted's TCP server socket, made fit for streams of small chunks and for readers that stall.

Twisted's own transport never sends when it is written to: it registers the socket with the
selector and sends when the loop comes round, which for a token stream means two epoll_ctl calls and
a trip through the selector for each chunk. Here the bytes go to the kernel at once, and the
selector is used only for what the kernel did not take. Reaches into `FileDescriptor`'s buffers
(Twisted 26.10); nothing else in this project does.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import Any

from twisted.internet import tcp


class StreamConnection(tcp.Server):  # type: ignore[misc]
    """One accepted connection. `entrant` is the protocol that the connection was counted for, also
    after a WebSocket protocol took its place."""

    _tempDataBuffer: list[bytes]
    _tempDataLen: int
    dataBuffer: bytes
    offset: int

    def __init__(self, skt: socket.socket, protocol: Any, *rest: Any) -> None:
        self.entrant = protocol
        self._is_corked = False
        super().__init__(skt, protocol, *rest)

    def write(self, data: bytes) -> None:
        if self._tempDataBuffer or self.dataBuffer or self._is_corked:
            self.writeSequence((data,))
        elif data and self.connected and not self._writeDisconnected and not self._aborting:
            self._send(data)

    def writeSequence(self, parts: Iterable[bytes]) -> None:
        if not self.connected or self._writeDisconnected or self._aborting:
            return
        for part in parts:
            if part:
                self._tempDataBuffer.append(part)
                self._tempDataLen += len(part)
        if not self._is_corked:
            self._push()

    def cork(self) -> None:
        """Hold what is written until `uncork`, so that headers and body leave in one packet."""
        self._is_corked = True

    def uncork(self) -> None:
        self._is_corked = False
        if self.connected and not self._aborting:
            self._push()

    def _push(self) -> None:
        if not self._tempDataBuffer:
            return
        if not self.dataBuffer:
            waiting = self._tempDataBuffer
            data = waiting[0] if len(waiting) == 1 else b"".join(waiting)
            self._tempDataBuffer, self._tempDataLen = [], 0
            self._send(data)
            return
        self._maybePauseProducer()
        self.startWriting()

    def _send(self, data: bytes) -> None:
        """Where nothing else waits: to the kernel at once, and what it does not take, later."""
        try:
            num_sent = self.socket.send(data)
        except OSError:
            # Full, or broken: if broken, the selector says so where Twisted expects it.
            num_sent = 0
        if num_sent == len(data):
            return
        self.dataBuffer = data[num_sent:]
        self.offset = 0
        self._maybePauseProducer()
        self.startWriting()

    def _isSendBufferFull(self) -> bool:
        # Not `bufferSize`: that is also how much is read at once.
        waiting = len(self.dataBuffer) - self.offset + self._tempDataLen
        return bool(waiting > self.entrant.high_water_bytes)

    def connectionLost(self, reason: Any) -> None:
        super().connectionLost(reason)
        self.entrant.left()


class StreamPort(tcp.Port):  # type: ignore[misc]
    """A listening port whose connections are `StreamConnection`s."""

    transport = StreamConnection

    @classmethod
    def of(cls, listener: socket.socket, factory: Any, reactor: Any) -> StreamPort:
        """A port for a socket that listens already. Takes the socket over."""
        port = cls._fromListeningDescriptor(reactor, listener.fileno(), listener.family, factory)
        listener.close()
        if not isinstance(port, cls):
            raise TypeError(f"Twisted made a {type(port).__name__}")
        return port
