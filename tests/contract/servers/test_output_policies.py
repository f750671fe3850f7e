"""What docs/hooks.md promises of answers, read by official clients from real sockets of both servers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import anthropic
import openai
import pytest

from accounts.keys import mint
from tests.contract.servers.conftest import SERVERS
from tests.contract.servers.live_server import LiveServer
from tests.contract.servers.policy_server import HELD_CHARS
from tests.unit.api.test_output_policies import BEFORE, BEHIND, FORMS, LONG
from tests.unit.api.test_tool_calls import TOOLS

ESCAPED = '{"city": "the \\u0073ecr\\u0065t one"}'
CALL = '<tool_call>\n{"name": "get_time", "arguments": %s}\n</tool_call>'
MASKED = BEFORE + "***" + BEHIND


@dataclass
class Clients:
    openai: openai.OpenAI
    anthropic: anthropic.Anthropic

    def chat(self, text: str, user: str, **fields: Any) -> Any:
        return self.openai.chat.completions.create(
            model="scripted",
            messages=[{"role": "user", "content": text}],
            user=user,
            max_tokens=2000,
            **fields,
        )

    def chunks(self, text: str, user: str, **fields: Any) -> list[Any]:
        return list(self.chat(text, user, stream=True, **fields))


@pytest.fixture(scope="module", params=SERVERS)
def clients(request: pytest.FixtureRequest) -> Iterator[Clients]:
    key = mint().plaintext
    with LiveServer(request.param, module="policy_server", key=key) as server:
        server.event("started")
        url = f"http://127.0.0.1:{server.port}"
        with (
            openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=2) as one,
            anthropic.Anthropic(base_url=url, api_key=key, max_retries=2) as other,
        ):
            yield Clients(one, other)


def content_of(chunks: list[Any], choice: int = 0) -> str:
    return "".join(
        [
            one.delta.content or ""
            for chunk in chunks
            for one in chunk.choices
            if one.index == choice and one.delta.content
        ]
    )


@pytest.mark.parametrize("form", FORMS)
def test_a_chat_is_masked(clients: Clients, form: str) -> None:
    said = BEFORE + FORMS[form] + BEHIND
    assert clients.chat(said, "mask").choices[0].message.content == MASKED
    assert content_of(clients.chunks(said, "mask")) == MASKED


def test_without_a_policy_that_matches_text_comes_as_it_is(clients: Clients) -> None:
    said = LONG + "secret" + BEHIND
    assert clients.chat(said, "nobody").choices[0].message.content == said
    chunks = clients.chunks(said, "nobody")
    assert content_of(chunks) == said
    pieces = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices[0].delta.content]
    assert max(map(len, pieces[:-1])) <= 2 * HELD_CHARS


def test_addresses_and_numbers_are_masked(clients: Clients) -> None:
    said = "Write to jane.doe@example.org, or pay with 4111 1111 1111 1111, and be quick about it, please."
    masked = "Write to ***, or pay with ***, and be quick about it, please."
    assert content_of(clients.chunks(said, "mask")) == masked
    assert clients.chat(said, "mask").choices[0].message.content == masked


def test_each_choice_is_masked(clients: Clients) -> None:
    said = BEFORE + "SECRET" + BEHIND
    assert [one.message.content for one in clients.chat(said, "mask", n=3).choices] == [MASKED] * 3
    chunks = clients.chunks(said, "mask", n=3)
    assert [content_of(chunks, choice) for choice in range(3)] == [MASKED] * 3


def test_thinking_and_arguments_are_masked(clients: Clients) -> None:
    said = "<think>\na secret thought\n</think>\n\nA secret. " + CALL % ESCAPED
    message = clients.chat(said, "mask", tools=TOOLS).choices[0].message
    assert message.content.strip() == "A ***."
    assert message.reasoning_content.strip() == "a *** thought"
    assert json.loads(message.tool_calls[0].function.arguments) == {"city": "the *** one"}
    deltas = [one.delta for chunk in clients.chunks(said, "mask", tools=TOOLS) for one in chunk.choices]
    calls = [call for delta in deltas for call in delta.tool_calls or ()]
    thought = "".join([getattr(delta, "reasoning_content", None) or "" for delta in deltas])
    assert thought.strip() == "a *** thought"
    assert json.loads("".join([call.function.arguments for call in calls])) == {"city": "the *** one"}


def test_a_denied_answer_is_an_error_and_a_denied_stream_ends_with_one(clients: Clients) -> None:
    said = LONG + "secret" + BEHIND
    with pytest.raises(openai.APIStatusError) as whole:
        clients.chat(said, "deny")
    assert whole.value.status_code == 451
    seen: list[Any] = []
    with pytest.raises(openai.APIError, match="This is not for you"):
        seen.extend(clients.chat(said, "deny", stream=True))
    content = content_of(seen)
    assert content
    assert LONG.startswith(content)


def test_a_filtered_answer_ends_early_and_says_so(clients: Clients) -> None:
    said = LONG + "secret" + BEHIND
    whole = clients.chat(said, "filter").choices[0]
    assert (whole.message.content, whole.finish_reason) == ("", "content_filter")
    chunks = clients.chunks(said, "filter")
    assert chunks[-1].choices[0].finish_reason == "content_filter"
    assert LONG.startswith(content_of(chunks))


def test_completions_are_masked(clients: Clients) -> None:
    said = BEFORE + FORMS["no width"] + BEHIND
    asked: Any = {"model": "scripted", "prompt": said, "user": "mask", "max_tokens": 2000}
    assert clients.openai.completions.create(**asked).choices[0].text == MASKED
    stream = clients.openai.completions.create(**asked, stream=True)
    assert "".join([chunk.choices[0].text for chunk in stream]) == MASKED


def test_responses_are_masked_in_all_their_events(clients: Clients) -> None:
    said = BEFORE + FORMS["full width"] + BEHIND
    asked: Any = {"model": "scripted", "input": said, "user": "mask", "max_output_tokens": 2000}
    assert clients.openai.responses.create(**asked).output_text == MASKED
    events = list(clients.openai.responses.create(**asked, stream=True))
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    (done,) = [event.text for event in events if event.type == "response.output_text.done"]
    assert "".join(deltas) == done == events[-1].response.output_text == MASKED
    assert not any(FORMS["full width"] in event.model_dump_json() for event in events)


def test_messages_are_masked(clients: Clients) -> None:
    said = BEFORE + "Secret" + BEHIND
    asked: Any = {
        "model": "scripted",
        "max_tokens": 2000,
        "messages": [{"role": "user", "content": said}],
        "metadata": {"user_id": "mask"},
    }
    assert clients.anthropic.messages.create(**asked).content[0].text == MASKED
    with clients.anthropic.messages.stream(**asked) as stream:
        assert "".join(stream.text_stream) == MASKED
