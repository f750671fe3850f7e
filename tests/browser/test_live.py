"""The live page in Chromium. Django's live server has no sockets, so the page's own is answered here."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest

from tests.browser.conftest import PHONE, serious_faults
from tests.browser.test_console import LOOKS, signed_in

pytestmark = pytest.mark.django_db(transaction=True)
SNAPSHOT = {
    "at": 1.0,
    "models": [
        {
            "id": "small",
            "state": "ready",
            "cause": "",
            "num_lanes": 8,
            "num_lanes_used": 2,
            "num_cells": 4096,
            "num_cells_used": 700,
            "num_cells_cached": 90,
            "num_waiting": 3,
            "max_waiting": 64,
            "num_batched": 2,
            "num_prefilling": 1,
            "num_held": 0,
            "prefill_tokens_per_s": 80.5,
            "generated_tokens_per_s": 21.0,
            "predicted_wait_s": 1.5,
            "limit": 4,
            "max_limit": 8,
        }
    ],
    "requests": [
        {
            "record_id": "01890a5d-ac96-774b-bcce-b302099a8057",
            "request_id": "<b>request-1</b>",
            "user_id": 1,
            "username": "ann",
            "key_name": "laptop",
            "model": "small",
            "endpoint": "chat.completions",
            "phase": "decoding",
            "num_input_tokens": 12,
            "num_output_tokens": 7,
            "max_tokens": 100,
            "total_s": 2.5,
        }
    ],
    "num_models": 1,
    "num_requests": 1,
    "num_servers": 1,
    "num_silent": 0,
    "is_complete": True,
    "maintenance": "New <i>disks</i>.",
    "is_known": True,
    "decisions": [{"at": 1.0, "kind": "probe", "text": "3 → 4 of 8: hardware-headroom", "request_id": ""}],
    "events": [{"at": 1.0, "kind": "refused", "text": "refused: queue_full", "request_id": "request-0"}],
}


@pytest.mark.parametrize("look", LOOKS)
def test_it_shows_what_comes_fits_and_axe_finds_nothing_serious(root, watched, shot, look) -> None:
    size, scheme = look
    page = watched(size=size, scheme=scheme)
    page.route_web_socket("**/console/live/socket", lambda socket: socket.send(json.dumps(SNAPSHOT)))
    signed_in(page, "root")
    page.goto("/console/live/")
    page.get_by_role("button", name="Cancel <b>request-1</b>").wait_for()
    assert page.get_by_text("Connected.").is_visible()
    assert page.get_by_text("Under maintenance. New <i>disks</i>.").is_visible()
    shot(page, f"live-{'phone' if size is PHONE else 'desktop'}-{scheme}")
    assert serious_faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.parametrize(("code", "said"), [(4403, "log in again"), (1012, "Trying again in 1 s")])
def test_a_lost_connection_is_told(root, watched, code, said) -> None:
    page = watched()
    page.route_web_socket("**/console/live/socket", lambda socket: socket.close(code=code))
    signed_in(page, "root")
    page.goto("/console/live/")
    page.get_by_text(said).wait_for()
    assert page.get_by_role("link", name="Log in", exact=True).is_visible() == (code == 4403)


def test_a_request_is_cancelled_after_a_question_and_its_row_says_so(root, watched) -> None:
    page = watched()
    sockets, cancelled = [], []
    now = deepcopy(SNAPSHOT)
    (mine,) = now["requests"]
    other = {**mine, "record_id": "01890a5d-ac96-774b-bcce-b302099a8058", "request_id": "request-2"}
    now |= {"requests": [mine, other], "num_requests": 2}

    def answer(route) -> None:
        cancelled.append(route.request.url)
        said = json.dumps({"message": "Cancelled: request-1"})
        route.fulfill(status=200, content_type="application/json", body=said)

    page.route("**/console/live/*/cancel", answer)
    page.route_web_socket("**/console/live/socket", lambda one: sockets.append(one))  # noqa: PLW0108
    signed_in(page, "root")
    page.goto("/console/live/")

    def tell(**changed) -> None:
        sockets[-1].send(json.dumps({**now, **changed}))

    page.wait_for_function("document.getElementById('state').textContent.startsWith('Connecting')")
    tell()
    first = page.get_by_role("button", name="Cancel <b>request-1</b>")
    first.click()
    page.get_by_role("button", name="Let it run").click()
    assert cancelled == []
    first.click()
    dialog = page.get_by_role("dialog", name="Cancel this request?")
    assert "ann" in dialog.inner_text() and serious_faults(page) == []
    dialog.get_by_role("button", name="Cancel the request").click()
    page.get_by_role("cell", name="cancelled", exact=True).wait_for()
    # A second time, and nobody asks.
    page.get_by_role("button", name="<b>request-1</b>: cancelled").click(force=True)
    assert not dialog.is_visible()
    tell(requests=[other], num_requests=1)
    assert page.get_by_role("cell", name="cancelled", exact=True).is_visible(), "for a moment"
    page.get_by_role("button", name="Cancel request-2").click()
    tell(requests=[], num_requests=0)
    dialog.get_by_text("It has ended meanwhile.").wait_for()
    assert dialog.get_by_role("button", name="Cancel the request").is_disabled()
    assert len(cancelled) == 1


def test_many_requests_odd_names_and_several_servers_fit_and_are_told(root, watched) -> None:
    page = watched(size=PHONE)
    sockets = []
    now = deepcopy(SNAPSHOT)
    (one,) = now["requests"]
    odd = "\u202egnp.exe\u200b" + "m\u0301\U0001f600" * 60
    many = [
        {**one, "record_id": f"01890a5d-ac96-774b-bcce-{number:012x}", "model": odd} for number in range(200)
    ]
    now |= {"requests": many, "num_requests": 2000, "num_servers": 3}
    now["events"] = [{"at": 1.0, "kind": "ended", "text": odd, "request_id": ""}]
    now["models"][0]["id"] = odd
    page.route_web_socket("**/console/live/socket", lambda one: sockets.append(one))  # noqa: PLW0108
    signed_in(page, "root")
    page.goto("/console/live/")
    page.wait_for_function("document.getElementById('state').textContent.startsWith('Connecting')")
    for changed, said in (
        ({}, "3 server processes"),
        ({"num_silent": 1, "is_complete": False}, "1 of 3 server processes did not answer"),
        ({"is_known": False, "is_complete": False, "requests": []}, "The database does not answer"),
        ({"requests": [], "num_requests": 0}, "Nothing runs or waits."),
        ({}, "And 1,800 more"),
    ):
        sockets[-1].send(json.dumps({**now, **changed}))
        page.get_by_text(said).wait_for()
    text = page.locator("#live").inner_text()
    assert "\u202e" not in text and "\u200b" not in text and "\ufffdgnp.exe" in text
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_a_connection_that_says_nothing_is_given_up_and_a_hidden_page_has_none(root, watched) -> None:
    page = watched()
    sockets, closed = [], []

    def opened(socket) -> None:
        sockets.append(socket)
        socket.on_close(lambda code, reason: closed.append(code))
        socket.send(json.dumps(SNAPSHOT))

    page.route_web_socket("**/console/live/socket", opened)
    signed_in(page, "root")
    page.clock.install()
    page.goto("/console/live/")
    page.get_by_text("Connected.").wait_for()
    page.clock.run_for(12_000)
    page.get_by_text("The server says nothing any more.").wait_for()
    page.clock.run_for(3_000)
    page.get_by_text("Connected.").wait_for()
    assert len(sockets) >= 2

    def hide(is_hidden: bool) -> None:
        page.evaluate(
            "(hidden) => { Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });"
            " document.dispatchEvent(new Event('visibilitychange')); }",
            is_hidden,
        )

    hide(True)
    page.clock.run_for(6_000)
    page.get_by_text("Not read while the page is hidden.").wait_for()
    num_sockets = len(sockets)
    page.clock.run_for(60_000)
    assert len(sockets) == num_sockets
    hide(False)
    page.get_by_text("Connected.").wait_for()
    assert len(sockets) > num_sockets
