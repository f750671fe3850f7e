import asyncio

import pytest

from accounts.contracts import KeyLookup, KeyState
from accounts.keys import mint
from inference.engine.load_error import ModelLoadError
from tests.asgi import Exchange, exchange
from tests.unit.api.conftest import KEY, Site, started

CHAT = b'{"model":"scripted","messages":[{"role":"user","content":"x"}]}'
PATHS = ["/v1/models", "/v1/chat/completions", "/v1/completions"]


@pytest.mark.parametrize(
    "header",
    [
        None,
        b"",
        b"Bearer",
        b"Bearer ",
        b"Basic abc",
        b"Bearer nope",
        b"Bearer " + b"k" * 100_000,
        "Bearer ké".encode("latin-1"),
    ],
)
@pytest.mark.parametrize("path", PATHS)
async def test_what_is_no_key_is_401_with_a_challenge(site, path, header):
    method = "GET" if path.endswith("models") else "POST"
    headers = {} if header is None else {"authorization": header}

    answer = await exchange(site.app, method, path, b"{}", headers=headers)

    assert answer.status == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["error"]["code"] == "invalid_api_key"
    assert answer.headers["x-request-id"]
    assert site.records == []


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (KeyState.UNKNOWN, "invalid_api_key"),
        (KeyState.EXPIRED, "api_key_expired"),
        (KeyState.REVOKED, "api_key_revoked"),
        (KeyState.USER_INACTIVE, "account_inactive"),
    ],
)
async def test_well_formed_keys_that_open_nothing_say_why(site, state, code):
    key = mint().plaintext
    site.keys[key] = KeyLookup(state)

    answer = await exchange(site.app, "GET", "/v1/models", headers={"authorization": f"Bearer {key}"})

    assert (answer.status, answer.json()["error"]["code"]) == (401, code)
    assert key not in answer.body.decode()


async def test_database_away_is_503_not_401(site):
    site.has_accounts = False

    answer = await site.get("/v1/models")

    assert answer.status == 503
    assert int(answer.headers["retry-after"]) >= 1


async def test_two_authorization_headers_are_nobodys_key(site):
    app = site.app
    twice = Exchange(app, "GET", "/v1/models", headers=site.headers())
    twice.task.cancel()
    scope_headers = [(b"authorization", site.headers()["authorization"].encode())] * 2

    async def doubled(scope, receive, send):
        await app({**scope, "headers": scope_headers}, receive, send)

    answer = await exchange(doubled, "GET", "/v1/models")

    assert answer.status == 401


async def test_the_key_is_checked_before_the_body_is_gathered(site):
    slow = Exchange(site.app, "POST", "/v1/chat/completions", headers={"authorization": "Bearer nope"})
    slow.send(b"x" * 1000, more=True)

    await slow.answer()

    assert slow.status == 401


async def test_a_body_over_the_limit_is_413(site):
    big = site.open("/v1/chat/completions", b"x" * (site.max_body_bytes + 1))

    await big.answer()

    assert (big.status, big.json()["error"]["code"]) == (413, "payload_too_large")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/chat/completions", "POST"),
        ("PUT", "/v1/completions", "POST"),
        ("POST", "/v1/models", "GET"),
    ],
)
async def test_wrong_methods_are_405_and_name_the_right_ones(site, method, path, allowed):
    answer = await exchange(site.app, method, path, b"{}", headers=site.headers())

    assert (answer.status, answer.headers["allow"]) == (405, allowed)
    assert answer.json()["error"]["code"] == "method_not_allowed"


@pytest.mark.parametrize(
    "path", ["/v1", "/v1/", "/v1/nope", "//v1//models", "/v1/chat", "/v1/chat/completions/x", "/v1/<b>\x00"]
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS"])
async def test_unknown_paths_are_404_in_the_apis_shape(site, method, path):
    answer = await exchange(site.app, method, path, headers={"accept": "text/html"})

    assert (answer.status, answer.json()["error"]["code"]) == (404, "not_found")
    assert answer.headers["content-type"] == "application/json"


async def test_models_and_one_model_with_or_without_a_slash(site):
    listing = (await site.get("/v1/models")).json()
    assert listing["object"] == "list" and listing["data"][0]["id"] == "scripted"
    for path in ("/v1/models/scripted", "/v1/models/scripted/", "/v1/models/scripted@main"):
        assert (await site.get(path)).json()["id"] == "scripted"
    missing = await site.get("/v1/models/none")
    assert (missing.status, missing.json()["error"]["code"]) == (404, "model_not_found")


async def test_request_ids_are_kept_when_valid_and_made_when_not(site):
    given = "6f1f7d3e-9f3d-4a57-8d58-0d5f1ff9a001"
    assert (await site.get("/v1/models", **{"x-request-id": given.upper()})).headers["x-request-id"] == given
    made = (await site.get("/v1/models", **{"x-request-id": "a\tb"})).headers["x-request-id"]
    assert made != "a\tb" and len(made) == 36


async def test_use_of_a_key_is_noted(site):
    await site.get("/v1/models")

    assert site.used_keys == [7]


async def test_an_engine_that_hangs_is_given_up_and_readiness_says_so(caplog):
    """Its statistics do not move while it has work: whoever waits is told, newcomers are refused."""
    site = Site(watchdog_s=0.02)
    site.runtime.watch()
    await started(site)
    site.engine.play = lambda handle: handle.start().say("so far")
    waiting = asyncio.ensure_future(site.post("/v1/chat/completions", CHAT))
    while not site.engine.handles:
        await asyncio.sleep(0)
    site.runtime.watch()
    await asyncio.sleep(0.03)
    assert site.engine.is_alive
    site.runtime.watch()

    assert not site.engine.is_alive
    assert (await asyncio.wait_for(waiting, 5)).status == 503
    assert (await site.post("/v1/chat/completions", CHAT)).status == 503
    answer = await exchange(site.app, "GET", "/readyz")
    assert answer.status == 503
    assert answer.json() == {"status": "failed", "reasons": ["the engine has stopped"]}
    assert "no progress" in (await site.runtime.readiness()).causes[0]
    (record,) = [one for one in caplog.records if one.levelname == "CRITICAL"]
    assert "1 decoding" in record.getMessage()
    await site.runtime.stop()


async def test_what_is_held_is_told_on_this_machine_alone(site):
    """A proxy that nobody named is not this machine."""

    async def told(client: str, **headers: str) -> bool:
        answer = await exchange(site.app, "GET", "/readyz", client=client, headers=headers)
        return "statistics" in answer.json()

    assert await told("127.0.0.1") and await told("::ffff:127.0.0.1")
    assert not await told("192.0.2.1")
    for name in ("x-forwarded-for", "x-real-ip", "forwarded"):
        assert not await told("127.0.0.1", **{name: "203.0.113.9"})


async def test_health_needs_no_key_and_readiness_tells_what_is_in_the_way(site):
    assert (await exchange(site.app, "GET", "/healthz")).status == 200
    assert (await exchange(site.app, "GET", "/readyz")).json() == {"status": "ready", "reasons": []}
    site.has_broker = False
    degraded = await exchange(site.app, "GET", "/readyz")
    assert (degraded.status, degraded.json()["status"]) == (200, "degraded")
    site.has_database = False
    assert (await exchange(site.app, "GET", "/readyz")).status == 503
    site.has_database = True
    site.engine.is_alive = False
    assert (await exchange(site.app, "GET", "/readyz")).status == 503
    assert (
        await site.post(
            "/v1/chat/completions", b'{"model":"scripted","messages":[{"role":"user","content":"x"}]}'
        )
    ).status == 503


async def test_a_model_that_cannot_be_used_is_one_sentence_for_those_who_run_the_service(caplog):
    failed = Site(load_failure=ModelLoadError("SKIPPY_GPU_LAYERS asks for what is not there."))
    await started(failed)

    (record,) = [one for one in caplog.records if one.levelname == "CRITICAL"]
    assert record.getMessage().endswith("SKIPPY_GPU_LAYERS asks for what is not there.")
    assert record.exc_info is None
    near = await exchange(failed.app, "GET", "/readyz", client="127.0.0.1")
    assert near.json()["reasons"][-1] == "scripted: SKIPPY_GPU_LAYERS asks for what is not there."
    far = await exchange(failed.app, "GET", "/readyz")
    assert far.json() == {"status": "failed", "reasons": ["the engine could not be started"]}


async def test_not_started_and_failed_and_draining_are_503():
    site = Site()
    assert (await exchange(site.app, "GET", "/readyz")).status == 503
    failed = Site(load_failure=RuntimeError("an odd fault"))
    await started(failed)
    assert (await exchange(failed.app, "GET", "/readyz")).status == 503
    ready = Site()
    await started(ready)
    ready.runtime.begin_drain()
    assert (await exchange(ready.app, "GET", "/readyz")).status == 503
    answer = await ready.post(
        "/v1/chat/completions", b'{"model":"scripted","messages":[{"role":"user","content":"x"}]}'
    )
    assert (answer.status, answer.json()["error"]["code"]) == (503, "service_unavailable")
    assert int(answer.headers["retry-after"]) >= 1


async def test_below_messages_errors_are_anthropics(site: Site) -> None:
    answer = await site.post("/v1/messages/no/such", b"{}")

    assert answer.status == 404
    found = answer.json()
    assert (found["type"], found["error"]["type"]) == ("error", "not_found_error")
    assert found["request_id"] == answer.headers["x-request-id"] == answer.headers["request-id"]


async def test_a_key_in_x_api_key_opens_the_same_doors(site: Site) -> None:
    answer = await exchange(site.app, "GET", "/v1/models", headers={"x-api-key": KEY})
    assert answer.status == 200
    both = {"x-api-key": KEY, "authorization": f"Bearer {mint().plaintext}"}
    assert (await exchange(site.app, "GET", "/v1/models", headers=both)).status == 401
