"""A server process with the real doors, services and policies, and an engine that repeats what it is told:
`python -m … daphne '{"key": "sk-…"}'`. Which policies hold for a request, its `user` says."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "skippy_site.settings")
django.setup()

from accounts.contracts import KeyLookup, KeyState  # noqa: E402
from hooks.contracts.actions import Deny, MaskKind, MaskText, StopGeneration, TextTarget  # noqa: E402
from hooks.contracts.points import HookPoint  # noqa: E402
from hooks.contracts.policies import Policy  # noqa: E402
from skippy_site.servers.__main__ import choose_server  # noqa: E402
from skippy_site.servers.contract import ListenConfig  # noqa: E402
from skippy_site.servers.lifecycle import leave_soon  # noqa: E402
from tests.contract.servers.scripted_server import tell  # noqa: E402
from tests.hook_parts import desk_of, policy  # noqa: E402
from tests.scripted_engine import ScriptedHandle  # noqa: E402
from tests.unit.api.conftest import PRINCIPAL, Site  # noqa: E402
from tests.unit.api.test_tool_calls import TEMPLATE, engine_of  # noqa: E402

HELD_CHARS = 32
EVERYWHERE = (TextTarget.CONTENT, TextTarget.REASONING, TextTarget.ARGUMENTS)
SECRET = "has_word(output.folded, 'secret')"


def policies() -> list[Policy]:
    mask = MaskText(EVERYWHERE, words=("secret",), kinds=(MaskKind.EMAIL, MaskKind.CARD_NUMBER))
    at_output: dict[str, Any] = {"held_chars": HELD_CHARS}
    return [
        policy(HookPoint.OUTPUT, mask, condition='request.end_user == "mask"', **at_output),
        policy(
            HookPoint.OUTPUT,
            Deny("This is not for you.", status=451),
            condition=f'request.end_user == "deny" && {SECRET}',
            **at_output,
        ),
        policy(
            HookPoint.OUTPUT,
            StopGeneration(),
            condition=f'request.end_user == "filter" && {SECRET}',
            **at_output,
        ),
    ]


def repeat(handle: ScriptedHandle) -> None:
    """Say what the last turn says, a byte at a time, and each a moment after the one before it."""
    prompt = handle.request.prompt_token_ids
    if 256 in prompt:
        turns = bytes([one if one < 256 else 0 for one in prompt]).split(b"\x00")
        text = [turn for turn in turns if turn.startswith(b"user\n")][-1].removeprefix(b"user\n")
    else:
        text = bytes(prompt)
    handle.start()
    asyncio.get_running_loop().create_task(_speak(handle, text))


async def _speak(handle: ScriptedHandle, text: bytes) -> None:
    for byte in text:
        handle.say_bytes(bytes([byte]))
        await asyncio.sleep(0)
    handle.finish()


class PolicyService:
    """The application, and its lifespan."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._site: Site

    async def start(self) -> None:
        self._site = Site()
        self._site.engine.description = engine_of(TEMPLATE).description
        self._site.engine.play = repeat
        self._site.keys[self._key] = KeyLookup(KeyState.VALID, PRINCIPAL)
        self._site.runtime.hook_desk = desk_of(*policies())
        await self._site.runtime.start()
        tell("started")

    def begin_drain(self) -> None:
        pass

    async def stop(self) -> None:
        await self._site.runtime.stop()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._site.app(scope, receive, send)


def main() -> int:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    service = PolicyService(json.loads(sys.argv[2])["key"])
    exit_code = choose_server(sys.argv[1])(
        service,
        service,
        ListenConfig(port=0),
        announce=lambda host, port: tell("listening", host=host, port=port),
    )
    leave_soon(exit_code)
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
