"""The settings of pictures and sounds: what reads them, and what is allowed of them.

A part of the environment (env.py), in a file of its own because there are many.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from hooks.outbound.addresses import AllowedHosts
from inference.media.limits import MediaLimits
from skippy_site.chat_settings import ChatSettings
from skippy_site.watching_settings import parts_of


class MediaSettings(ChatSettings, frozen=True, kw_only=True):
    """See the module. (Structs have one base each, so the parts of the environment stand in a row.)"""

    mmproj: Annotated[
        str,
        Meta(
            description="the model's projector, which reads pictures or sounds: a GGUF file's path, or "
            "hf:org/repo/file.gguf; empty: text alone"
        ),
    ] = ""
    media_threads: Annotated[
        int,
        Meta(
            ge=0, le=512, description="threads that pictures and sounds are read with; 0: half of the others"
        ),
    ] = 0
    media_hosts: Annotated[
        str,
        Meta(
            description="comma-separated hosts from which pictures and sounds may be fetched, such as "
            "example.com, *.example.com or example.com:8443; *: all of the public internet; empty: none"
        ),
    ] = ""
    media_fetch_timeout_s: Annotated[
        float, Meta(gt=0, le=600, description="time for such a file to arrive, redirects included")
    ] = 10.0
    media_max_items: Annotated[int, Meta(ge=1, le=1000, description="pictures and sounds of one request")] = (
        16
    )
    media_max_bytes: Annotated[
        int, Meta(ge=1024, le=1 << 30, description="size of one picture or sound, as a file")
    ] = 20 * 1024 * 1024
    media_max_pixels: Annotated[
        int,
        Meta(
            ge=1, le=80_000_000, description="pixels of a picture; each takes about twelve bytes for a moment"
        ),
    ] = 25_000_000
    media_max_audio_s: Annotated[float, Meta(gt=0, le=36_000, description="length of a sound")] = 600.0
    media_memory_bytes: Annotated[
        int,
        Meta(
            ge=1 << 20,
            description="what was made of pictures and sounds, for requests that wait or run and, as far as "
            "that leaves room, for later ones; 429 above",
        ),
    ] = 512 * 1024 * 1024

    def check_media(self) -> None:
        """Raises ValueError with one line that names the variable at fault."""
        try:
            AllowedHosts(parts_of(self.media_hosts))
        except ValueError as problem:
            raise ValueError(f"SKIPPY_MEDIA_HOSTS: {problem}") from None

    @property
    def allowed_media_hosts(self) -> AllowedHosts:
        return AllowedHosts(parts_of(self.media_hosts))

    @property
    def media_limits(self) -> MediaLimits:
        return MediaLimits(
            max_items=self.media_max_items,
            max_bytes=self.media_max_bytes,
            max_pixels=self.media_max_pixels,
            max_sound_s=self.media_max_audio_s,
            fetch_timeout_s=self.media_fetch_timeout_s,
            max_memory_bytes=self.media_memory_bytes,
        )
