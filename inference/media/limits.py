"""What an administrator allows of pictures and sounds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MediaLimits:
    """`max_items`: pictures and sounds of one request. `max_bytes`: of one file, as it comes;
    `max_request_bytes`: of all files of a request.
    `max_pixels`: of a decoded picture; each takes about twelve bytes while it is read. `max_sound_s`: of
    a sound. `fetch_timeout_s`: for a file that is fetched, redirects and all. `max_memory_bytes`: of
    what was encoded, for requests that wait or run and, as far as that leaves room, for later ones.
    """

    max_items: int = 16
    max_bytes: int = 20 * 1024 * 1024
    max_request_bytes: int = 64 * 1024 * 1024
    max_pixels: int = 25_000_000
    max_sound_s: float = 600.0
    fetch_timeout_s: float = 10.0
    max_memory_bytes: int = 512 * 1024 * 1024
