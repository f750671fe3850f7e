"""Writes docs/configuration.md from the settings themselves: `python -m skippy_site.settings_page`."""

from __future__ import annotations

import sys
import typing

import msgspec
from msgspec import Meta

from skippy_site.chat_settings import ChatSettings
from skippy_site.env import Environment, variable_name
from skippy_site.watching_settings import WatchingSettings


def _part(field: msgspec.structs.FieldInfo) -> int:
    """Where a setting stands: those of the service, of chats, of those who watch."""
    if field.name in WatchingSettings.__struct_fields__:
        return 2
    return 1 if field.name in ChatSettings.__struct_fields__ else 0


def settings_table() -> str:
    """All settings as a Markdown table, from the fields themselves."""
    hints = typing.get_type_hints(Environment, include_extras=True)
    rows = ["| variable | default | meaning |", "|---|---|---|"]
    for field in sorted(msgspec.structs.fields(Environment), key=_part):
        metas = [meta for meta in typing.get_args(hints[field.name]) if isinstance(meta, Meta)]
        meaning = next(meta.description for meta in metas if meta.description)
        default = f"`{field.default}`" if field.default not in ("", None) else ""
        rows.append(f"| `{variable_name(field.name)}` | {default} | {meaning} |")
    return "\n".join(rows)


PAGE = """\
# Settings

All settings come from the environment, are read once at start and checked: a wrong one is one line
that names it, and exit code 2. An empty variable counts as absent. This page is made by
`python -m skippy_site.settings_page`.

{table}

Where `SKIPPY_PUBLIC_URL` is absent, the console answers under localhost, 127.0.0.1 and `SKIPPY_HOST`
only; the API under every name. With an https URL the cookies are Secure and HSTS is on, so set it
only where TLS really is in front.

`SKIPPY_LLAMA_BACKEND` and `CMAKE_ARGS` say how llama.cpp is built, before any of these is read:
docs/hardware.md, which also says more about GPUs, KV types and memory.
"""

if __name__ == "__main__":
    sys.stdout.write(PAGE.format(table=settings_table()))
