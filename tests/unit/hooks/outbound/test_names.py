import asyncio
import socket
import threading

import pytest

from hooks.outbound.names import NameResolver


class Names:
    """Stands in for the system's resolver: names that begin with "slow" wait until they are let go."""

    def __init__(self, monkeypatch):
        self.asked = []
        self.go_on = threading.Event()
        monkeypatch.setattr(socket, "getaddrinfo", self)

    def __call__(self, host, port, **_options):
        self.asked.append(host)
        if host.startswith("slow"):
            self.go_on.wait(60)
        if host == "nowhere":
            raise socket.gaierror(-2, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", port))]


@pytest.fixture
def names(monkeypatch):
    made = Names(monkeypatch)
    yield made
    made.go_on.set()


async def test_the_system_is_asked():
    assert "127.0.0.1" in await NameResolver().addresses("127.0.0.1", 80)


async def test_a_name_that_is_being_looked_up_is_not_asked_for_again(names):
    resolver = NameResolver()
    waiting = [asyncio.create_task(resolver.addresses("slow.example", 80)) for _ in range(5)]
    await asyncio.sleep(0)
    waiting.pop().cancel()
    names.go_on.set()

    assert await asyncio.gather(*waiting) == [["192.0.2.1"]] * 4
    assert names.asked == ["slow.example"]
    assert await resolver.addresses("slow.example", 80) == ["192.0.2.1"]
    assert len(names.asked) == 2


async def test_names_that_nobody_answers_for_do_not_pile_up(names):
    resolver = NameResolver(max_lookups=2)
    waiting = [asyncio.create_task(resolver.addresses(f"slow{index}.example", 80)) for index in range(2)]
    await asyncio.sleep(0)

    with pytest.raises(OSError, match="too many"):
        await resolver.addresses("fast.example", 80)
    names.go_on.set()
    await asyncio.gather(*waiting)
    assert await resolver.addresses("fast.example", 80) == ["192.0.2.1"]


async def test_a_name_without_an_address_is_an_error_also_where_nobody_waits(names):
    resolver = NameResolver()
    with pytest.raises(OSError, match="gaierror"):
        await resolver.addresses("nowhere", 80)
    given_up = asyncio.create_task(resolver.addresses("nowhere", 80))
    await asyncio.sleep(0)
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    with pytest.raises(OSError, match="gaierror"):
        await resolver.addresses("nowhere", 80)


async def test_a_machine_without_threads_has_no_addresses_and_gets_over_it(names, monkeypatch):
    def no_thread(_thread):
        raise RuntimeError("can't start new thread")

    resolver = NameResolver()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(OSError, match="no thread left"):
            await resolver.addresses("fast.example", 80)
    assert await resolver.addresses("fast.example", 80) == ["192.0.2.1"]


@pytest.mark.parametrize("host", ["a" * 70 + ".example", "a..example", "\udcff"])
async def test_what_is_no_name_is_an_error(host):
    with pytest.raises(OSError):
        await NameResolver().addresses(host, 80)
