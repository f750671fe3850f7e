"""A connection without a socket, and a clock that moves when told."""

from __future__ import annotations

from skippy_site.servers.connections import Connections, Entrance
from skippy_site.servers.contract import ListenConfig
from skippy_site.servers.phases import ConnectionClock, Phase


class HandClock:
    def __init__(self) -> None:
        self.now_ts = 1000.0

    def __call__(self) -> float:
        return self.now_ts


class FakeConnection:
    """Writes down what it is told; leaves when closed or aborted."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self.clock: ConnectionClock = connections.new_clock()
        self.stalled_since_ts: float | None = None
        self.told: list[str] = []

    def time_out(self) -> None:
        self.told.append("time_out")
        self.clock.enter(Phase.LINGERING)

    def close(self) -> None:
        self.told.append("close")
        self.clock.enter(Phase.FLUSHING)

    def close_after_answer(self) -> None:
        self.told.append("close_after_answer")

    def abort(self) -> None:
        self.told.append("abort")
        self._connections.leave(self)


def make_connections(clock: HandClock, **options: object) -> Connections:
    return Connections(ListenConfig(**options), now=clock)  # type: ignore[arg-type]


def admit(connections: Connections, phase: Phase = Phase.WAITING) -> FakeConnection:
    entrance = connections.next_entrance()
    assert entrance is Entrance.ADMITTED
    connection = FakeConnection(connections)
    connections.enter(connection, entrance)
    connection.clock.enter(phase)
    connections.check_integrity()
    return connection
