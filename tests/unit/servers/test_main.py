from __future__ import annotations

from skippy_site.env import read_environment
from skippy_site.servers.__main__ import listen_config


def test_the_settings_become_limits() -> None:
    environment = read_environment(
        {
            "SKIPPY_HOST": "0.0.0.0",  # noqa: S104
            "SKIPPY_PORT": "9000",
            "SKIPPY_MAX_CONNECTIONS": "10",
            "SKIPPY_LANES": "16",
            "SKIPPY_DRAIN_GRACE_S": "7.5",
        }
    )
    config = listen_config(environment)
    assert (config.host, config.port, config.drain_grace_s) == ("0.0.0.0", 9000, 7.5)  # noqa: S104
    assert config.max_connections == 16 + 128, "never fewer than queue and lanes"
    assert config.max_body_bytes == 32 * 1024 * 1024
