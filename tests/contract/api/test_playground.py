"""The playground in a browser on a live service: one conversation with everything that can happen in it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from tests.browser.conftest import PHONE, browser, serious_faults, shot
from tests.contract.api.conftest import LiveService
from tests.contract.api.test_live_socket import PASSWORD

# The browser's fixtures, here too. (Named once, so that the linter sees them used.)
FIXTURES = (browser, shot)
PATIENCE_MS = 60_000
HOSTILE = (
    'It\'s "so" \\ $HOME `id` $(id) !! %s {x}\n\ttab é 日本 🙂 \u0000\u0007\u2028 \'\'\' """ <b>bold</b>'
)
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "enum": ["Rome", "Oslo"]}},
            "required": ["city"],
        },
    },
}


class Relay:
    """Notes the bodies of requests and passes them on."""

    def __init__(self, to: str) -> None:
        bodies: list[dict[str, Any]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                bodies.append(json.loads(body))
                headers = {name: self.headers[name] for name in ("Authorization", "Content-Type")}
                answer = httpx.post(f"{to}{self.path}", content=body, headers=headers, timeout=60)
                self.send_response(answer.status_code)
                self.send_header("Content-Type", answer.headers["Content-Type"])
                self.send_header("Content-Length", str(len(answer.content)))
                self.end_headers()
                self.wfile.write(answer.content)

            def log_message(self, *arguments: Any) -> None:
                pass

        self.bodies = bodies
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self._thread = threading.Thread(target=self.server.serve_forever)

    def __enter__(self) -> Relay:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()


class Player:
    """Somebody with a key, at the page."""

    def __init__(self, page: Any, live: LiveService, key: dict[str, Any]) -> None:
        self.page, self.live, self.key = page, live, key
        self.sent: list[dict[str, Any]] = []
        page.on("request", self._note)

    def _note(self, request: Any) -> None:
        if request.url.endswith("/v1/chat/completions"):
            self.sent.append(request.post_data_json)

    def open(self) -> None:
        self.page.goto("/console/playground/")
        self.page.wait_for_selector("#model:not([disabled])", timeout=PATIENCE_MS)

    def say(self, text: str) -> Any:
        """Sends it; the turn of the answer, which has begun."""
        self.page.fill("#message", text)
        self.page.keyboard.press("Control+Enter")
        return self.last()

    def last(self) -> Any:
        self.page.wait_for_selector(".turn.assistant:last-child", timeout=PATIENCE_MS)
        return self.page.locator(".turn.assistant").last

    def ended(self, turn: Any) -> str:
        """What is told of it, once its record is there, too."""
        line = turn.locator(".request", has_text="recorded as")
        line.wait_for(timeout=PATIENCE_MS)
        return turn.locator(".ending").inner_text()


@pytest.fixture
def player(browser: Any, live: LiveService) -> Iterator[Player]:
    name = f"player{time.time_ns()}"
    made = live.manage(
        "shell",
        "-v0",
        "-c",
        "import json; from accounts import services; "
        f"user = services.user_ensure(username='{name}'); user.set_password('{PASSWORD}'); user.save(); "
        "row, key = services.api_key_create(user=user, name='to play with'); "
        "print(json.dumps({'id': row.pk, 'key': key.plaintext}))",
    )
    key = json.loads(made.strip().splitlines()[-1])
    complaints: list[str] = []
    context = browser.new_context(base_url=live.url, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "request",
        lambda asked: (
            None
            if asked.url.startswith((live.url, "data:"))
            else complaints.append(f"another host: {asked.url}")
        ),
    )
    page.goto("/console/login/")
    page.fill("input[name=username]", name)
    page.fill("input[name=password]", PASSWORD)
    page.click("form.stacked button")
    page.wait_for_url("**/console/")
    yield Player(page, live, key)
    context.close()
    assert complaints == []


def test_a_conversation(player: Player, live: LiveService, shot: Callable[[Any, str], None]) -> None:
    page = player.page
    player.open()
    assert live.model in page.input_value("#model")
    assert serious_faults(page) == []

    # Tokens appear while they are made, each with its chance, and nothing that was written becomes markup.
    page.fill("[name=max_tokens]", "24")
    page.fill("[name=seed]", "7")
    turn = player.say(HOSTILE)
    turn.locator(".token").first.wait_for(timeout=PATIENCE_MS)
    assert turn.get_attribute("aria-busy") == "true"
    told = player.ended(turn)
    assert turn.get_attribute("aria-busy") is None
    # Beside others a model may take another turn, with the same seed too, and end before its limit.
    num_tokens = int(re.search(r"Output\s+(\d+) tokens", told)[1])
    assert 1 < num_tokens <= 24 and "Tokens/s" in told and "To the first token" in told
    assert "recorded as completed" in told and "no policy decided anything" in told
    assert page.locator(".turn.user b").count() == 0
    assert num_tokens - 1 <= turn.locator(".said .token").count() <= num_tokens
    assert turn.locator(".said .token[title^='p = ']").count() == turn.locator(".said .token").count()
    turn.locator(".said[tabindex]").focus()
    page.keyboard.press("ArrowRight")
    card = turn.locator(".token-card:visible").inner_text()
    assert card.count("p ") >= 5 and "drawn" in card
    assert serious_faults(page) == []
    shot(page, "playground-desktop-light")

    # The same request elsewhere: as it was sent, by programs that people have.
    turn.get_by_text("The same request").click()
    with Relay(live.url) as relay:
        environment = {**os.environ, "SKIPPY_API_KEY": player.key["key"], "NO_PROXY": "*"}
        curl = turn.locator(".copies pre").text_content().replace(live.url, relay.url)
        turn.get_by_role("button", name="Python").click()
        python = turn.locator(".copies pre").text_content().replace(live.url, relay.url)
        answers = [
            subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
            for command in (["bash", "-c", curl], [sys.executable, "-c", python])
        ]
    assert player.key["key"] not in curl + python
    assert relay.bodies == [player.sent[-1]] * 2
    assert relay.bodies[0]["messages"][-1]["content"] == HOSTILE
    assert re.search(r'"finish_reason":"(length|stop)"', answers[0].stdout)
    assert len(answers[1].stdout.split()) > 3

    # Stopped by a key of the keyboard: the engine lets go of it, and its record says so.
    page.fill("[name=max_tokens]", "4000")
    turn = player.say("Count to a thousand, please.")
    turn.locator(".token").first.wait_for(timeout=PATIENCE_MS)
    page.keyboard.press("Escape")
    told = player.ended(turn)
    assert "stopped" in told and "client_disconnect" in told
    deadline_ts = time.monotonic() + 20
    while live.statistics()["engine"]["lanes"]["num_used"]:
        assert time.monotonic() < deadline_ts

    # An error as the API told it, and the next try goes on from there.
    page.fill("[name=temperature]", "9")
    turn = player.say("Hotter")
    told = player.ended(turn)
    assert "400 invalid_value" in told and "temperature" in told
    page.fill("[name=temperature]", "")

    # A tool: its call is shown, and what somebody types as its result goes back.
    page.fill("[name=tools]", '[{"type": "function"}]')
    page.fill("#message", "x")
    page.click("#send")
    assert 'needs a "name"' in page.inner_text("#problem")
    page.fill("[name=tools]", json.dumps([TOOL]))
    page.select_option("[name=tool_choice]", "required")
    page.fill("[name=max_tokens]", "40")
    turn = player.say("What is the weather in Rome?")
    turn.locator(".call textarea").wait_for(timeout=PATIENCE_MS)
    assert '"city": "' in turn.locator(".call pre").inner_text()
    page.select_option("[name=tool_choice]", "none")
    page.fill("[name=max_tokens]", "8")
    turn.locator(".call textarea").fill("Sunny, 21 degrees")
    turn.get_by_role("button", name="Give this result").click()
    player.ended(player.last())
    call, result = player.sent[-1]["messages"][-2:]
    assert result == {
        "role": "tool",
        "tool_call_id": call["tool_calls"][0]["id"],
        "content": "Sunny, 21 degrees",
    }

    # The conversation is this tab's, and gone with who signed in.
    num_turns = page.locator(".turn").count()
    page.reload()
    # But for the answer that was an error and nothing else.
    assert page.locator(".turn").count() == num_turns - 1
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size(PHONE)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert serious_faults(page) == []
    shot(page, "playground-phone-dark")
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("button", name="Log out").click()
    page.wait_for_url("**/console/login/**")
    assert page.evaluate("sessionStorage.length") == 0


def test_policies_that_fired_are_shown_and_a_revoked_key_opens_nothing(
    player: Player, live: LiveService
) -> None:
    page = player.page
    name = f"salaries {time.time_ns()}"
    manager = json.loads(
        live.manage("api_key_create", "--user", "m", "--name", "m", "--scope", "policies", "--json")
    )["key"]
    policy = {
        "name": name,
        "point": "before_chat_completion",
        "mode": "enforce",
        "condition": 'has_word(text.input, "salary")',
        "actions": [{"type": "tag", "name": "topic", "value": "pay"}],
        "scope": {"key_ids": [player.key["id"]]},
    }
    made = httpx.post(
        f"{live.url}/api/hook-policies",
        json=policy,
        headers={"Authorization": f"Bearer {manager}"},
        timeout=20,
    )
    assert made.status_code == 201, made.text
    player.open()
    page.fill("[name=max_tokens]", "5")
    deadline_ts = time.monotonic() + 20
    while name not in player.ended(player.say("What is her salary?")):
        assert time.monotonic() < deadline_ts
    records = httpx.get(
        f"{live.url}/api/records", headers={"Authorization": f"Bearer {player.key['key']}"}, timeout=20
    ).json()["data"]
    assert records[0]["metadata"] == {"skippy:door": "playground", "policy:topic": "pay"}

    live.manage("api_key_revoke", str(player.key["id"]))
    deadline_ts = time.monotonic() + 6
    while "api_key_revoked" not in (
        told := player.say("Still?").locator(".ending").inner_text(timeout=20_000)
    ):
        assert time.monotonic() < deadline_ts, told
