"""What docs/hooks.md says of webhooks."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest

from hooks.contracts.actions import Deny
from hooks.contracts.points import HookPoint
from hooks.contracts.view import MessageView, RequestView, TextPart
from hooks.contracts.webhook_settings import BodyPart, WebhookRights
from hooks.contracts.webhooks import WebhookFailed
from hooks.webhooks import call_body
from hooks.webhooks.caller import HttpWebhookCaller
from tests.webhook_calls import webhook_call, webhook_settings

PAGE = (Path(__file__).parents[3] / "docs" / "hooks.md").read_text()
RIGHTS = WebhookRights(frozenset({BodyPart.TEXT}), frozenset({Deny}))


@pytest.fixture
def documented():
    """The receiver of the page, at a port that is free, and without its lines on standard error."""
    code = PAGE.split("### A receiver")[1].split("```python\n")[1].split("```")[0]
    made, last = code.rstrip().rsplit("\n", 1)
    assert last.startswith("ThreadingHTTPServer(") and last.endswith(".serve_forever()")
    names: dict[str, type[BaseHTTPRequestHandler]] = {}
    exec(made, names)  # noqa: S102 - it is our own page
    receiver = names["Receiver"]
    receiver.log_message = lambda *_arguments: None
    server = ThreadingHTTPServer(("127.0.0.1", 0), receiver)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def asking(text):
    return webhook_call(
        request=RequestView("chat.completions", "m", (MessageView("user", (TextPart(text),)),))
    )


async def test_the_receiver_of_the_page_answers(documented):
    caller = HttpWebhookCaller()
    settings = webhook_settings(
        f"http://127.0.0.1:{documented}/", secret="the secret of the webhook", rights=RIGHTS
    )
    caller.use([settings])

    assert (await caller.call(asking("Hello"), timeout_s=60)).actions == ()
    assert (await caller.call(asking("His salary?"), timeout_s=60)).actions == (Deny("Not here."),)
    await caller.close()


async def test_it_believes_nobody_with_another_secret(documented):
    caller = HttpWebhookCaller()
    settings = webhook_settings(f"http://127.0.0.1:{documented}/", secret="another secret", rights=RIGHTS)
    caller.use([settings])

    with pytest.raises(WebhookFailed):
        await caller.call(asking("Hello"), timeout_s=60)
    await caller.close()


def test_the_page_names_every_field_right_and_point():
    structs = [
        one for one in vars(call_body).values() if isinstance(one, type) and issubclass(one, msgspec.Struct)
    ]
    names = {name for struct in structs for name in struct.__struct_fields__ if struct is not msgspec.Struct}
    assert len(names) > 40

    assert [name for name in sorted(names) if f"`{name}`" not in PAGE] == []
    assert [one for one in (*BodyPart, *HookPoint) if f"`{one.value}`" not in PAGE] == []
