"""Models on a command line: `--engine lanes=4`, `--chat-defaults '{"top_k": 5}'`, `--allow-team search`.

What is not given stays as it is. Nothing is checked here that the services check.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from accounts.models import Team
from accounts.selectors import api_key_find
from inference.domain.adapters import AdapterSettings
from inference.domain.model_settings import LoadPolicy, ModelSettings
from inference.domain.speculation import SpeculationMode

NONE = "none"
MAX_FILE_BYTES = 2 * 1024 * 1024


def add_model_arguments(parser: ArgumentParser) -> None:
    """One option a setting."""
    parser.add_argument("--alias", action="append", metavar="NAME", help=f"may be repeated; {NONE}: no alias")
    parser.add_argument("--projector", metavar="SOURCE", help=f"reads pictures or sounds; {NONE}: without")
    parser.add_argument("--enabled", action=BooleanOptionalAction, help="whether it is served at all")
    parser.add_argument("--default", action=BooleanOptionalAction, help="for requests that name no model")
    parser.add_argument("--policy", choices=[policy.value for policy in LoadPolicy], help="when it is loaded")
    parser.add_argument("--idle-unload-s", type=float, metavar="S", help="where loaded on demand; 0: never")
    for option, example in (("engine", "lanes=4"), ("admission", "queue=64")):
        parser.add_argument(
            f"--{option}",
            action="append",
            type=_pair,
            default=[],
            metavar="NAME=VALUE",
            help=f"such as {example}; may be repeated; NAME= takes the service's own again",
        )
    for kind in ("chat", "completion"):
        parser.add_argument(
            f"--{kind}-defaults", type=_json_object, metavar="JSON", help="an object, or @FILE with one"
        )
    parser.add_argument("--embeddings", action=BooleanOptionalAction, help="whether it answers embeddings")
    parser.add_argument("--speculation", choices=[mode.value for mode in SpeculationMode])
    parser.add_argument("--max-draft-tokens", type=int, metavar="N")
    parser.add_argument("--draft", metavar="SOURCE", help=f"the draft model; {NONE}: without")
    parser.add_argument(
        "--adapter",
        action="append",
        type=_pair,
        default=[],
        metavar="NAME=SOURCE",
        help="adds or replaces one",
    )
    parser.add_argument("--adapter-scale", action="append", type=_pair, default=[], metavar="NAME=SCALE")
    parser.add_argument("--default-adapter", action="append", metavar="NAME", help=f"{NONE}: no one")
    parser.add_argument("--remove-adapter", action="append", default=[], metavar="NAME")
    parser.add_argument(
        "--open", action=BooleanOptionalAction, help="to everybody, or to the teams and keys named alone"
    )
    for action in ("allow", "disallow"):
        parser.add_argument(f"--{action}-team", action="append", default=[], metavar="NAME")
        parser.add_argument(f"--{action}-key", action="append", default=[], metavar="REFERENCE")


def settings_from(options: Mapping[str, Any], *, before: ModelSettings) -> ModelSettings:
    """`before` with what the options say."""
    changed: dict[str, Any] = {}
    plain = {
        "default": "is_default",
        "idle_unload_s": "idle_unload_s",
        "chat_defaults": "chat_defaults",
        "completion_defaults": "completion_defaults",
        "embeddings": "has_embeddings",
    }
    for option, name in plain.items():
        if options[option] is not None:
            changed[name] = options[option]
    if options["alias"] is not None:
        changed["aliases"] = tuple(name for name in options["alias"] if name != NONE)
    if options["policy"] is not None:
        changed["load_policy"] = LoadPolicy(options["policy"])
    if options["projector"] is not None:
        changed["projector_source"] = source_from(options["projector"])
    for name, own in (("engine", before.engine), ("admission", before.admission)):
        if options[name]:
            changed[name] = _with_pairs(own, options[name])
    return replace(
        before,
        **changed,
        speculation=_speculation(options, before),
        adapters=_adapters(options, before.adapters),
        access=_access(options, before),
    )


def source_from(text: str) -> str:
    """A path means a file from where the command is run, where there is one."""
    if text == NONE:
        return ""
    path = Path(text).expanduser()
    try:
        return str(path.absolute()) if path.exists() else text
    except (OSError, ValueError):  # too long a name, a NUL: the service says so
        return text


def _speculation(options: Mapping[str, Any], before: ModelSettings) -> Any:
    changed: dict[str, Any] = {}
    if options["speculation"] is not None:
        changed["mode"] = SpeculationMode(options["speculation"])
    if options["max_draft_tokens"] is not None:
        changed["max_draft_tokens"] = options["max_draft_tokens"]
    if options["draft"] is not None:
        changed["draft_source"] = source_from(options["draft"])
    return replace(before.speculation, **changed)


def _with_pairs(before: Mapping[str, Any], pairs: list[tuple[str, str]]) -> dict[str, Any]:
    settings = dict(before)
    for name, text in pairs:
        if text:
            settings[name] = _value(text)
        else:
            settings.pop(name, None)
    return settings


def _value(text: str) -> Any:
    """A number or a truth as JSON has it, else the text itself."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, int | float) else text


def _adapters(options: Mapping[str, Any], before: tuple[AdapterSettings, ...]) -> tuple[AdapterSettings, ...]:
    adapters = {one.name: one for one in before}
    for name in options["remove_adapter"]:
        if adapters.pop(name, None) is None:
            raise CommandError(f"There is no adapter {name!r}.")
    for name, source in options["adapter"]:
        known = adapters.get(name)
        path = source_from(source)
        adapters[name] = (
            AdapterSettings(name=name, source=path) if known is None else replace(known, source=path)
        )
    for name, text in options["adapter_scale"]:
        try:
            adapters[name] = replace(adapters[name], scale=float(text))
        except KeyError:
            raise CommandError(f"There is no adapter {name!r}.") from None
        except ValueError:
            raise CommandError(f"{text!r} is not a scale.") from None
    if options["default_adapter"] is not None:
        wanted = {name for name in options["default_adapter"] if name != NONE}
        if unknown := sorted(wanted - adapters.keys()):
            raise CommandError(f"There is no adapter {unknown[0]!r}.")
        adapters = {name: replace(one, is_default=name in wanted) for name, one in adapters.items()}
    return tuple(adapters.values())


def _access(options: Mapping[str, Any], before: ModelSettings) -> Any:
    access = before.access
    teams, keys = set(access.team_ids), set(access.key_ids)
    for name in options["allow_team"]:
        teams.add(_team_id(name))
    for name in options["disallow_team"]:
        teams.discard(_team_id(name))
    for reference in options["allow_key"]:
        keys.add(api_key_find(reference=reference).pk)
    for reference in options["disallow_key"]:
        keys.discard(api_key_find(reference=reference).pk)
    is_open = access.is_open if options["open"] is None else options["open"]
    return replace(access, is_open=is_open, team_ids=frozenset(teams), key_ids=frozenset(keys))


def _team_id(name: str) -> int:
    found: int | None = Team.objects.filter(name=name).values_list("pk", flat=True).first()
    if found is None:
        raise CommandError(f"There is no team {name!r}.")
    return found


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ArgumentTypeError("write it as NAME=VALUE")
    return name, value


def _json_object(text: str) -> dict[str, Any]:
    if text.startswith("@"):
        try:
            with Path(text[1:]).open("rb") as file:
                text = file.read(MAX_FILE_BYTES).decode()
        except (OSError, ValueError):
            raise ArgumentTypeError(f"{text[1:]!r} is no text file that can be read") from None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ArgumentTypeError("not a JSON object")
    return value
