import pytest

from skippy_site.proxies import TrustedProxies


async def seen(networks, *, peer="10.0.0.1", kind="http", **headers):
    found = {}

    async def app(scope, receive, send):
        found.update(scope)

    scope = {
        "type": kind,
        "client": (peer, 1) if peer else None,
        "scheme": "http" if kind == "http" else "ws",
        "headers": [(n.replace("_", "-").encode(), v.encode("latin-1")) for n, v in headers.items()],
    }
    await TrustedProxies(app, networks)(scope, None, None)
    return found["client"], found["scheme"]


TRUSTED = ("10.0.0.0/8", "fd00::/8")


@pytest.mark.parametrize(
    ("forwarded", "client"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("1.2.3.4, 203.0.113.9", "203.0.113.9"),
        ("1.2.3.4, 203.0.113.9, 10.2.2.2", "203.0.113.9"),
        ("10.9.9.9", "10.9.9.9"),
        ("2001:db8::1", "2001:db8::1"),
        ("nonsense, 203.0.113.9", "203.0.113.9"),
        ("203.0.113.9, nonsense", "10.0.0.1"),
        ("", "10.0.0.1"),
        (",,", "10.0.0.1"),
    ],
)
async def test_a_trusted_proxy_names_the_client(forwarded, client):
    found, _ = await seen(TRUSTED, x_forwarded_for=forwarded)

    assert found[0] == client


async def test_the_scheme_comes_from_a_trusted_proxy_only():
    assert (await seen(TRUSTED, x_forwarded_proto="https"))[1] == "https"
    assert (await seen(TRUSTED, x_forwarded_proto="https", kind="websocket"))[1] == "wss"
    assert (await seen(TRUSTED, x_forwarded_proto="gopher"))[1] == "http"
    assert (await seen(TRUSTED, peer="203.0.113.1", x_forwarded_proto="https"))[1] == "http"


@pytest.mark.parametrize("peer", ["203.0.113.1", "not an address", None])
async def test_headers_of_anybody_else_are_ignored(peer):
    client, _ = await seen(TRUSTED, peer=peer, x_forwarded_for="9.9.9.9")

    assert client == ((peer, 1) if peer else None)


async def test_without_networks_nothing_is_believed():
    assert (await seen((), x_forwarded_for="9.9.9.9", x_forwarded_proto="https")) == (("10.0.0.1", 1), "http")


async def test_an_ipv4_peer_seen_through_ipv6_is_recognised():
    client, _ = await seen(TRUSTED, peer="::ffff:10.0.0.1", x_forwarded_for="203.0.113.9")

    assert client[0] == "203.0.113.9"
