from __future__ import annotations

import pytest

from hooks.outbound.addresses import AddressRefused
from skippy_site.env import EnvironmentProblem, read_environment
from skippy_site.webhooks import make_webhook_caller

OLD = "o" * 40


def test_hosts_and_old_keys_come_from_the_environment() -> None:
    environment = read_environment(
        {
            "SKIPPY_WEBHOOK_HOSTS": "example.com, *.example.org:8443",
            "SKIPPY_OLD_SECRET_KEYS": f"{OLD}1 ,{OLD}2",
        }
    )

    assert environment.former_secret_keys == (f"{OLD}1", f"{OLD}2")
    assert environment.allowed_webhook_hosts.check("https://a.example.org:8443/").port == 8443
    with pytest.raises(AddressRefused):
        environment.allowed_webhook_hosts.check("https://other.example/")


@pytest.mark.parametrize("hosts", ["https://example.com", "a b", "example.com:99999", "*.*"])
def test_hosts_that_mean_nothing_are_one_line_at_start(hosts: str) -> None:
    with pytest.raises(EnvironmentProblem, match="SKIPPY_WEBHOOK_HOSTS"):
        read_environment({"SKIPPY_WEBHOOK_HOSTS": hosts})


def test_a_short_old_key_is_refused_and_not_shown() -> None:
    with pytest.raises(EnvironmentProblem, match="SKIPPY_OLD_SECRET_KEYS") as caught:
        read_environment({"SKIPPY_OLD_SECRET_KEYS": f"{OLD},short-one"})
    assert "short-one" not in str(caught.value)
    assert OLD not in str(caught.value)


async def test_a_caller_knows_nobody_before_it_is_told() -> None:
    caller = make_webhook_caller(read_environment({}))

    assert caller.statistics() == ()
    await caller.close()
