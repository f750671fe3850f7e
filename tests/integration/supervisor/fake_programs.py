"""Small stand-ins for the service's own processes, run as `python -m … ROLE`.

They do what the supervisor can see of the real ones: listen and answer /readyz, print the lines that
the steps print, connect to the database and the broker that they are told, end on SIGTERM.
"""

from __future__ import annotations

import http.server
import json
import os
import signal
import sys
import time
from pathlib import Path
from urllib.parse import unquote, urlsplit


def first_run() -> int:
    import psycopg

    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS starts (at timestamptz DEFAULT now())")
        counted = connection.execute("SELECT count(*) FROM starts").fetchone()
        connection.execute("INSERT INTO starts DEFAULT VALUES")
    made = {"username": "admin", "password": "pass-word-shown-once", "api_key": "sk-skippy-shown-once"}
    print("a line of some library")
    print(json.dumps({"administrator": None if counted and counted[0] else made}))
    return 0


def model() -> int:
    print(json.dumps({"progress": "fetching the model: 50 %"}), flush=True)
    if os.environ.get("FAKE_MODEL_PROBLEM"):
        print(json.dumps({"problem": os.environ["FAKE_MODEL_PROBLEM"]}))
        return 1
    time.sleep(float(os.environ.get("FAKE_MODEL_S", "0")))
    print(json.dumps({"path": "/models/tiny-model.gguf"}))
    return 0


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status = Path(os.environ["SKIPPY_HOME"], "readyz").read_text() if _has_status() else "ready"
        body = json.dumps({"status": status, "reasons": []}).encode()
        self.send_response(200 if status in ("ready", "degraded") else 503)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return


def _has_status() -> bool:
    return Path(os.environ["SKIPPY_HOME"], "readyz").exists()


def server() -> int:
    if os.environ.get("FAKE_SERVER_FAILS"):
        print("the model file is broken", file=sys.stderr)
        return 3
    assert os.environ["SKIPPY_MODEL_PATH"] == "/models/tiny-model.gguf"
    listening = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["SKIPPY_PORT"])), _Handler)

    def drain(*_: object) -> None:
        time.sleep(float(os.environ.get("FAKE_DRAIN_S", "0")))
        sys.exit(0)

    signal.signal(signal.SIGTERM, drain)
    listening.serve_forever()
    return 0


def worker() -> int:
    """Also reaches the broker, and on request keeps a child of its own as a forking pool would."""
    import socket

    if os.environ.get("FAKE_WORKER_FORKS") and os.fork() == 0:
        time.sleep(600)
        return 0
    with socket.socket(socket.AF_UNIX) as broker:
        broker.connect(unquote(urlsplit(os.environ["REDIS_URL"]).path))
        broker.sendall(b"PING\r\n")
        assert broker.recv(16).startswith(b"+PONG")
    Path(os.environ["SKIPPY_HOME"], "worker-reached-broker").touch()
    time.sleep(600)
    return 0


def beat() -> int:
    if os.environ.get("FAKE_BEAT_FAILS"):
        print("no schedule", file=sys.stderr)
        return 1
    time.sleep(600)
    return 0


if __name__ == "__main__":
    sys.exit({f.__name__: f for f in (first_run, model, server, worker, beat)}[sys.argv[1]]())
