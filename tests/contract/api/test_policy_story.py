"""What an administrator does with a policy, in a browser on a live service: write it, try it, switch it on,
see the next request denied and the decision listed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.browser.conftest import browser, serious_faults, shot
from tests.contract.api.conftest import LiveService
from tests.contract.api.test_live_socket import PASSWORD

# The browser's fixtures, here too. (Named once, so that the linter sees them used.)
FIXTURES = (browser, shot)
PATIENCE_S = 20.0
REQUEST = {"model": "tiny", "messages": [{"role": "user", "content": "What is her SAL\u200bARY?"}]}


@pytest.fixture
def page(browser: Any, live: LiveService) -> Iterator[Any]:
    name = f"admin{time.time_ns()}"
    live.manage(
        "shell",
        "-c",
        "from django.contrib.auth.models import User; "
        f"User.objects.create_superuser('{name}', password='{PASSWORD}')",
    )
    context = browser.new_context(base_url=live.url, viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    opened.goto("/console/login/")
    opened.fill("input[name=username]", name)
    opened.fill("input[name=password]", PASSWORD)
    opened.click("form.stacked button")
    opened.wait_for_url("**/console/")
    yield opened
    context.close()


def test_a_policy_is_written_tried_switched_on_and_obeyed(
    page: Any,
    live: LiveService,
    shot: Callable[[Any, str], None],
) -> None:
    name = f"no salaries {time.time_ns()}"
    key = json.loads(live.manage("api_key_create", "--user", "ruled", "--name", name, "--json"))
    page.goto("/admin/hooks/hookpolicy/add/")
    page.fill("input[name=name]", name)
    page.fill("textarea[name=condition]", 'has_word(text.input, "salary")')
    page.fill("textarea[name=actions]", '[{"type": "deny", "message": "Not here.", "code": "salaries"}]')
    page.fill("textarea[name=keys]", f"#{key['id']}")
    page.click("button[name=_save]")
    page.wait_for_url("**/hookpolicy/")

    page.click(f"text={name}")
    with page.context.expect_page() as opened:
        page.click("button[name=draft_of]")
    trial = opened.value
    trial.fill("textarea[name=trial-body]", json.dumps(REQUEST))
    trial.fill("input[name=trial-key_id]", str(key["id"]))
    trial.click("#trial button[type=submit]")
    trial.wait_for_selector("#result")
    shot(trial, "policy-trial")
    assert f"Denied by {name}: 403 salaries" in trial.inner_text("#result")
    assert serious_faults(trial) == []

    def asked() -> httpx.Response:
        body = {**REQUEST, "model": live.model, "max_tokens": 1}
        headers = {"Authorization": f"Bearer {key['key']}"}
        return httpx.post(f"{live.url}/v1/chat/completions", json=body, headers=headers, timeout=30)

    assert asked().status_code == 200
    page.select_option("select[name=mode]", "enforce")
    page.click("button[name=_save]")
    page.wait_for_url("**/hookpolicy/")
    deadline_ts = time.monotonic() + PATIENCE_S
    while asked().status_code == 200:
        assert time.monotonic() < deadline_ts
        time.sleep(0.1)
    denied = asked()
    assert (denied.status_code, denied.json()["error"]["code"]) == (403, "salaries")

    deadline_ts = time.monotonic() + PATIENCE_S
    while True:
        # A refusal does not wait until its record is safe.
        page.goto("/console/decisions/")
        rows = page.locator("table.log tbody tr", has_text=name)
        if rows.count() >= 2:
            break
        assert time.monotonic() < deadline_ts
    shot(page, "decisions")
    assert serious_faults(page) == []
    assert "applied" in rows.first.inner_text() and "deny" in rows.first.inner_text()
    rows.first.locator("a").click()
    page.wait_for_url("**/console/requests/**")
    assert name in page.inner_text("main")
