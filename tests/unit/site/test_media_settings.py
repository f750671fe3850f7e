from __future__ import annotations

import pytest

from skippy_site.engine_settings import engine_config
from skippy_site.env import EnvironmentProblem, read_environment


def test_limits_and_hosts_come_from_the_environment() -> None:
    environment = read_environment(
        {
            "SKIPPY_MEDIA_MAX_ITEMS": "3",
            "SKIPPY_MEDIA_MAX_BYTES": "4096",
            "SKIPPY_MEDIA_MAX_PIXELS": "100",
            "SKIPPY_MEDIA_MAX_AUDIO_S": "5",
            "SKIPPY_MEDIA_FETCH_TIMEOUT_S": "2.5",
            "SKIPPY_MEDIA_MEMORY_BYTES": "2000000",
            "SKIPPY_MEDIA_HOSTS": " example.com, *.example.org:8443 ,",
            "SKIPPY_MEDIA_THREADS": "3",
        }
    )
    limits = environment.media_limits
    assert (limits.max_items, limits.max_bytes, limits.max_pixels) == (3, 4096, 100)
    assert (limits.max_sound_s, limits.fetch_timeout_s, limits.max_memory_bytes) == (5, 2.5, 2_000_000)
    hosts = environment.allowed_media_hosts
    assert hosts.check("https://example.com/a").host == "example.com"
    assert hosts.check("https://a.example.org:8443/").port == 8443
    assert engine_config(environment).effective_media_threads == 3


def test_by_default_nothing_is_fetched_and_nothing_read() -> None:
    environment = read_environment({})
    assert not environment.allowed_media_hosts
    assert environment.mmproj == ""
    assert engine_config(environment).effective_media_threads >= 1


@pytest.mark.parametrize("hosts", ["https://example.com", "a b", "example.com:99999", "*.*"])
def test_hosts_that_mean_nothing_are_one_line_at_start(hosts: str) -> None:
    with pytest.raises(EnvironmentProblem, match="SKIPPY_MEDIA_HOSTS"):
        read_environment({"SKIPPY_MEDIA_HOSTS": hosts})
