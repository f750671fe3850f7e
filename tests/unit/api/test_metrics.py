import pytest

from tests.asgi import exchange
from tests.unit.api.conftest import KEY, PRINCIPAL, Site
from tests.unit.api.test_generating import speak

CHAT = b'{"model":"scripted","messages":[{"role":"user","content":"x"}]}'


async def get(site: Site, *, client: tuple[str, int], **headers: str):
    def app(scope, receive, send):
        return site.app({**scope, "client": client}, receive, send)

    return await exchange(app, "GET", "/metrics", headers=headers)


async def test_a_scraper_on_this_machine_needs_no_key(site):
    site.engine.play = speak("x")
    await site.post("/v1/chat/completions", CHAT)

    answer = await get(site, client=("127.0.0.1", 5000))

    assert answer.status == 200
    assert "vllm:num_requests_running" in answer.body.decode()
    assert (
        'skippy_requests_total{code="",endpoint="chat.completions",outcome="completed"} 1.0'
        in answer.body.decode()
    )


@pytest.mark.parametrize("client", [("10.1.2.3", 5000), ("::1", 5000), ("unix", 1)])
async def test_strangers_are_asked_for_a_key(site, client):
    answer = await get(site, client=client)

    assert answer.status == 401


async def test_a_proxy_that_nobody_named_is_not_this_machine(site):
    answer = await get(site, client=("127.0.0.1", 5000), **{"x-forwarded-for": "203.0.113.9"})

    assert answer.status == 401


async def test_a_mapped_address_is_the_one_that_it_maps(site):
    assert (await get(site, client=("::ffff:127.0.0.1", 5000))).status == 200


async def test_a_key_needs_to_be_given_metrics(site):
    from_afar = {"client": ("10.1.2.3", 5000), "authorization": f"Bearer {KEY}"}

    assert (await get(site, **from_afar)).status == 403
    site.metrics_readers.append(PRINCIPAL)
    assert (await get(site, **from_afar)).status == 200


async def test_refused_keys_are_counted(site):
    await get(site, client=("10.1.2.3", 5000), authorization="Bearer wrong")

    answer = await get(site, client=("127.0.0.1", 5000))

    assert 'skippy_refused_keys_total{code="invalid_api_key"} 1.0' in answer.body.decode()
