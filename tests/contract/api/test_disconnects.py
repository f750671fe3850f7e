"""Clients that leave at random moments leave nothing behind: counted, not assumed."""

import json
import random
import socket
import threading
import time

import psycopg


def settled(live, *, patience_s=10.0):
    """Wait until nothing is held; returns the last statistics seen."""
    deadline = time.monotonic() + patience_s
    while True:
        held = live.statistics()
        admission, engine = held["admission"], held["engine"]
        numbers = (
            admission["num_granted"],
            admission["queue"]["num_waiting"],
            admission["budget"]["num_reserved_tokens"],
            engine["lanes"]["num_used"],
            engine["num_cells_used"],
        )
        if not any(numbers) or time.monotonic() > deadline:
            return numbers
        time.sleep(0.1)


def connections(live) -> int:
    parts = psycopg.conninfo.conninfo_to_dict(live.environment["DATABASE_URL"])
    with psycopg.connect(**parts) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchone()
    return row[0]


def leave(live, after_s: float, *, streaming: bool, prompt: str) -> None:
    payload = json.dumps(
        {
            "model": live.model,
            "stream": streaming,
            "max_tokens": 2000,
            "ignore_eos": True,
            "messages": [{"role": "user", "content": prompt}],
        }
    ).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {live.key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(payload)}\r\n\r\n"
    ).encode()
    with socket.create_connection(("127.0.0.1", live.port)) as client:
        client.sendall(head + payload)
        time.sleep(after_s)


def test_a_hundred_clients_that_leave_at_random_leave_nothing(live):
    live.alive()
    chance = random.Random(5)
    before = connections(live)
    clients = [
        threading.Thread(
            target=leave,
            args=(live, chance.choice([0.0, 0.01, 0.1, 0.5, 1.5])),
            kwargs={
                "streaming": chance.random() < 0.5,
                "prompt": "tell a story " * chance.choice([1, 20, 300]),
            },
        )
        for _ in range(100)
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join()

    assert settled(live) == (0, 0, 0, 0, 0)
    # What stays is the prefix cache's, within its limits.
    engine = live.statistics()["engine"]
    assert engine["cache"]["num_entries"] <= 64
    assert engine["cache"]["num_cells"] <= engine["num_cells"] // 2
    began = time.monotonic()
    live.alive()
    assert time.monotonic() - began < 5
    assert connections(live) <= max(before, 10)


def test_open_streams_hold_no_database_connection(live):
    live.alive()
    before = connections(live)
    clients = [
        threading.Thread(target=leave, args=(live, 1.0), kwargs={"streaming": True, "prompt": "story"})
        for _ in range(30)
    ]
    for client in clients:
        client.start()
    time.sleep(0.5)
    during = connections(live)
    for client in clients:
        client.join()

    assert during <= max(before, 10)
    assert settled(live) == (0, 0, 0, 0, 0)
