"""The LoRA adapters of the first model, as the environment names them."""

from __future__ import annotations

import math
import re
from typing import Annotated

from msgspec import Meta

from inference.domain.adapters import AdapterSettings
from skippy_site.media_settings import MediaSettings

_SCALE = re.compile(r"(?P<source>.+):(?P<scale>[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)")


class LoraSettings(MediaSettings, frozen=True, kw_only=True):
    """See the module; media_settings.py says why it has this base."""

    lora: Annotated[
        str,
        Meta(
            description="LoRA adapters of the first model: name=source[:scale], with commas between them; a "
            "source is a GGUF file's path, or hf:org/repo/file.gguf"
        ),
    ] = ""

    @property
    def adapters(self) -> tuple[AdapterSettings, ...]:
        """Raises ValueError with one line."""
        found = [_adapter(part.strip()) for part in self.lora.split(",") if part.strip()]
        names = [one.name for one in found]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"SKIPPY_LORA: the adapter {name!r} is there twice")
        return tuple(found)


def _adapter(part: str) -> AdapterSettings:
    name, marker, source = part.partition("=")
    name, source = name.strip(), source.strip()
    if not marker or not name or not source:
        raise ValueError(f"SKIPPY_LORA: expected name=source[:scale], not {part!r}")
    scaled = _SCALE.fullmatch(source)
    if scaled is None:
        return AdapterSettings(name=name, source=source)
    try:
        scale = float(scaled["scale"])
    except ValueError:
        raise ValueError(f"SKIPPY_LORA: expected a number behind the colon in {part!r}") from None
    if not math.isfinite(scale):
        raise ValueError(f"SKIPPY_LORA: expected a finite scale in {part!r}")
    return AdapterSettings(name=name, source=scaled["source"], scale=scale)
