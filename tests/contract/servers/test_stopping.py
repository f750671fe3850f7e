"""From SIGTERM to the exit code: who is let finish, who is cut, and in which order."""

from __future__ import annotations

import signal
import socket
import time

import pytest

from tests.contract.servers.live_server import LiveServer

STOP_ORDER = ["listening", "lifespan.start", "lifespan.begin_drain", "lifespan.stop"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_server_stops_at_once_with_code_0(server_name: str, number: int) -> None:
    with LiveServer(server_name) as server:
        kept = server.connect()
        assert kept.ask("GET", "/echo").status == 200
        server.event("lifespan.start")
        begun_ts = time.monotonic()
        server.signal(number)
        assert kept.is_closed(), "an idle connection closes at once"
        assert server.exit_code() == 0
        assert time.monotonic() - begun_ts < 1.5
        assert server.event_names() == STOP_ORDER
        kept.socket.close()
        assert "Traceback" not in server.log()


def test_running_answers_end_by_themselves_while_newcomers_get_503(server_name: str) -> None:
    with LiveServer(server_name, drain_grace_s=5) as server, server.connect() as client:
        client.request("GET", "/stream?n=20&interval=0.05")
        client.receive_some()
        idle = server.connect()
        idle.ask("GET", "/echo")
        begun_ts = time.monotonic()
        server.signal()
        server.event("lifespan.begin_drain")
        assert idle.is_closed()
        assert time.monotonic() - begun_ts < 0.5
        with server.connect() as newcomer:
            answer = newcomer.ask("POST", "/v1/chat/completions", body=b"{}")
            assert answer.status == 503
            assert answer.error()["code"] == "service_unavailable"
            assert int(answer.headers["retry-after"]) >= 1
            assert newcomer.is_closed()
        with server.connect() as prober:
            answer = prober.ask("GET", "/healthz")
            assert answer.status == 200, "probes are still served"
            assert answer.headers["connection"] == "close"
        rest = client._rest()
        assert rest.endswith(b"end\n\r\n0\r\n\r\n")
        assert server.exit_code() == 0
        assert server.event_names() == STOP_ORDER
        idle.socket.close()


def test_what_outlasts_the_grace_is_cancelled_and_may_say_a_last_word(server_name: str) -> None:
    with LiveServer(server_name, drain_grace_s=0.4, last_words_s=0.4) as server:
        polite, rude = server.connect(), server.connect()
        polite.request("GET", "/stream?tag=polite&last=1")
        rude.request("GET", "/stream?tag=rude")
        polite.receive_some(), rude.receive_some()
        begun_ts = time.monotonic()
        server.signal()
        cancelled = server.event("cancelled", tag="polite")
        assert 0.3 < cancelled["ts"] - begun_ts < 1.0
        assert polite._rest().endswith(b"cancelled\n\r\n0\r\n\r\n")
        assert not rude._rest().endswith(b"0\r\n\r\n"), "a cut answer must not look complete"
        assert server.exit_code() == 0
        assert server.event_names()[-1] == "lifespan.stop"
        polite.socket.close(), rude.socket.close()


def test_a_request_without_an_answer_yet_is_told_503_when_it_is_cancelled(server_name: str) -> None:
    with LiveServer(server_name, drain_grace_s=0.2) as server, server.connect() as client:
        client.request("POST", "/idle?tag=x", body=b"{}")
        server.event("idle", tag="x")
        server.signal()
        assert client.answer().status == 503
        assert server.exit_code() == 0


def test_a_lifespan_that_can_end_answers_is_asked_first(server_name: str) -> None:
    with LiveServer(server_name, drain_grace_s=0.3, last_words_s=0.3, in_band=True) as server:
        client = server.connect()
        client.request("GET", "/stream?tag=x")
        client.receive_some()
        server.signal()
        assert server.exit_code() == 0
        names = server.event_names()
        order = ["lifespan.begin_drain", "lifespan.begin_stop", "cancelled", "lifespan.stop"]
        assert [name for name in names if name in order] == order
        asked, cancelled = server.event("lifespan.begin_stop"), server.event("cancelled")
        assert 0.2 < cancelled["ts"] - asked["ts"] < 1.0
        client.socket.close()


def test_a_second_signal_ends_the_grace(server_name: str) -> None:
    with LiveServer(server_name, drain_grace_s=30, last_words_s=0.3) as server:
        client = server.connect()
        client.request("GET", "/stream?tag=x")
        client.receive_some()
        server.signal()
        server.event("lifespan.begin_drain")
        begun_ts = time.monotonic()
        server.signal()
        assert server.exit_code() == 0
        assert time.monotonic() - begun_ts < 2.0
        client.socket.close()


def test_a_request_that_is_still_arriving_is_let_finish(server_name: str) -> None:
    with LiveServer(server_name, drain_grace_s=5) as server, server.connect() as client:
        client.send(b"POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 6\r\n\r\nabc")
        time.sleep(0.2)
        server.signal()
        server.event("lifespan.begin_drain")
        time.sleep(0.3)
        client.send(b"def")
        answer = client.answer()
        assert answer.json()["num_body_bytes"] == 6
        assert client.is_closed()
        assert server.exit_code() == 0


def test_a_stalled_reader_does_not_hold_up_the_stop(server_name: str) -> None:
    with LiveServer(server_name, drain_grace_s=0.3, last_words_s=0.3) as server:
        client = server.connect(receive_buffer_bytes=4096)
        client.request("GET", "/flood?tag=x")
        time.sleep(0.3)
        begun_ts = time.monotonic()
        server.signal()
        assert server.exit_code() == 0
        assert time.monotonic() - begun_ts < 3.0
        client.socket.close()


def test_a_thread_that_never_ends_does_not_keep_the_process(server_name: str) -> None:
    options = {"drain_grace_s": 0.2, "last_words_s": 0.2, "exit_patience_s": 0.5}
    with LiveServer(server_name, **options) as server, server.connect() as client:
        client.request("GET", "/stuck?tag=x")
        server.event("stuck")
        begun_ts = time.monotonic()
        server.signal()
        assert server.exit_code() == 0
        assert time.monotonic() - begun_ts < 4.0
        assert server.event_names()[-1] == "lifespan.stop"


def test_a_failed_start_ends_the_process_with_code_1(server_name: str) -> None:
    with LiveServer(server_name, fails_to_start=True) as server:
        assert server.exit_code() == 1
        assert server.event_names() == STOP_ORDER
        assert "no model" in server.log()


def test_an_address_in_use_is_one_line(server_name: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = LiveServer(server_name, port=port)
        message = server.event("problem", patience_s=20)["message"]
        assert message == f"cannot listen at 127.0.0.1:{port}: address already in use"
        assert server.exit_code() == 1
        server.__exit__()
