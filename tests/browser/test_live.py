"""The live page in Chromium. Django's live server has no sockets, so the page's own is answered here."""

from __future__ import annotations

import json

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
    "num_requests": 1,
    "num_servers": 1,
    "is_complete": True,
    "maintenance": "New <i>disks</i>.",
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


@pytest.mark.parametrize(("code", "said"), [(4403, "sign in again"), (1012, "Trying again in 1 s")])
def test_a_lost_connection_is_told(root, watched, code, said) -> None:
    page = watched()
    page.route_web_socket("**/console/live/socket", lambda socket: socket.close(code=code))
    signed_in(page, "root")
    page.goto("/console/live/")
    page.get_by_text(said).wait_for()
