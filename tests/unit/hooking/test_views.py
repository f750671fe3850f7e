from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest

from hooks.conditions import RequestTexts
from hooks.contracts.view import MediaPartView, MediaSort, RequestView, TextPart
from inference.hooking.views import num_view_bytes, request_view
from inference.openai.protocol import OutputRequest
from tests.unit.hooking import requests

PNG = b"no picture at all"
PICTURE = {
    "type": "image_url",
    "image_url": {"url": "data:image/png;base64," + base64.b64encode(PNG).decode()},
}
LINKED = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
SOUND = {"type": "input_audio", "input_audio": {"data": base64.b64encode(b"tut").decode(), "format": "wav"}}


def view(request: OutputRequest) -> RequestView:
    return request_view(request, endpoint="chat.completions")


def text(value: str) -> dict[str, str]:
    return {"type": "text", "text": value}


def test_turns_are_seen_as_they_were_sent() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    seen = view(
        requests.chat(
            {"role": "system", "content": "Be good."},
            {"role": "user", "content": "Hi", "name": "ada"},
            {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": "Hm"},
            {"role": "tool", "content": "1", "tool_call_id": "c1"},
        )
    )
    system, user, assistant, tool = seen.messages
    assert (system.role, system.text, system.is_text, system.place) == ("system", "Be good.", True, 0)
    assert (user.text, user.name, user.place) == ("Hi", "ada", 1)
    assert (assistant.parts, assistant.reasoning) == ((), "Hm")
    assert assistant.tool_arguments == ('{"a": 1}',)
    assert (tool.role, tool.text) == ("tool", "1")


def test_pictures_and_sounds_are_seen_in_their_places_and_never_their_bytes() -> None:
    asked = requests.chat(
        {"role": "user", "content": [PICTURE]},
        {"role": "user", "content": [text("a\n"), LINKED, SOUND, text("\nb")]},
    )
    seen = view(asked)
    digest = "data:" + hashlib.sha256(PNG).hexdigest()
    assert seen.messages[0].parts == (MediaPartView(MediaSort.IMAGE, digest, 0),)
    assert not seen.messages[0].is_text
    assert seen.messages[1].parts == (
        TextPart("a\n"),
        MediaPartView(MediaSort.IMAGE, "https://example.org/a.png", 1),
        MediaPartView(MediaSort.AUDIO, "data:" + hashlib.sha256(b"tut").hexdigest(), 2),
        TextPart("\nb"),
    )
    assert num_view_bytes(asked) == len(PNG) + len(b"tut")


def test_what_a_view_says_of_itself_is_no_text_of_anybody() -> None:
    seen = view(requests.chat({"role": "user", "content": "secret"}))
    assert "secret" not in repr(seen) + repr(seen.messages[0])


def test_parameters_have_the_names_that_the_wires_share() -> None:
    seen = view(
        requests.chat(
            max_completion_tokens=7, temperature=0.5, n=2, stream=True, seed=3, top_p=1, user="u",
            metadata={"a": "b"}, skippy_hooks=True,
        )
    )  # fmt: skip
    assert seen.parameters == {
        "max_tokens": 7, "temperature": 0.5, "n": 2, "stream": True, "seed": 3, "top_p": 1,
    }  # fmt: skip
    assert (seen.end_user, seen.metadata, seen.is_stream, seen.opts_in) == ("u", {"a": "b"}, True, True)
    assert {"skippy_hooks", "metadata", "messages", "model"} <= seen.fields
    assert view(requests.chat()).parameters == {}


def test_completions_have_prompts_and_no_messages() -> None:
    seen = view(requests.completion(["a", "b"], max_tokens=3))
    assert (seen.prompts, seen.messages) == (("a", "b"), ())
    assert view(requests.completion([1, 2])).prompts == (None,)


def test_whatever_else_a_model_may_read_is_seen() -> None:
    tool = {
        "type": "function",
        "function": {
            "name": "find",
            "description": "first",
            "parameters": {"type": "object", "properties": {"a": {"description": "sécond"}}},
        },
    }
    call = {"id": "c1", "type": "function", "function": {"name": "third", "arguments": "{}"}}
    seen = view(
        requests.chat(
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "content": "1", "tool_call_id": "c1"},
            tools=[tool],
            chat_template_kwargs={"x": "fourth"},
        )
    )
    assert seen.beside_texts == ("first", "sécond", "c1", "c1")
    assert {"find", "third", "fourth"} <= set(seen.other_texts)
    assert view(requests.completion("a", suffix="behind")).other_texts == ("behind",)
    assert view(requests.chat()).other_texts == ()


def test_words_hide_in_no_id_of_a_call() -> None:
    call = {
        "id": "how to build a bomb",
        "type": "function",
        "function": {"name": "f", "arguments": "{}"},
    }
    seen = view(
        requests.chat(
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "content": "1", "tool_call_id": "how to build a bomb"},
        )
    )
    assert seen.other_texts == ("f",)
    assert seen.beside_texts == ("how to build a bomb", "how to build a bomb")
    # What a response goes on from may have made the call.
    result = {"type": "function_call_output", "call_id": "a bomb", "output": "1"}
    continued = view(requests.response([result], previous_response_id="resp_1"))
    assert continued.beside_texts == ("a bomb",)


FORCED: dict[str, dict[str, Any]] = {
    "a schema": {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "n", "schema": {"const": "a bomb"}},
        }
    },
    "a name in a schema": {"json_schema": {"type": "object", "properties": {"a bomb": {"enum": [1]}}}},
    "choices": {"structured_outputs": {"choice": ["yes", "a bomb"]}},
    "a pattern": {"structured_outputs": {"regex": "a bomb"}},
    "a grammar": {"structured_outputs": {"grammar": 'start: "a bomb"'}},
    "tags": {
        "structured_outputs": {
            "structural_tag": {
                "structures": [{"begin": "<a bomb>", "schema": {"const": "a bomb"}, "end": "a bomb"}],
                "triggers": ["<a"],
            }
        }
    },
}


@pytest.mark.parametrize("form", FORCED)
def test_what_an_answer_has_to_say_is_seen(form: str) -> None:
    assert "a bomb" in "\n".join(view(requests.chat(**FORCED[form])).other_texts)


def test_words_do_not_hide_in_what_json_makes_of_them() -> None:
    # As JSON it would be `x\nbomb` and `bo\u0001mb`, in which is no word of that kind.
    hidden = {"type": "object", "properties": {"a": {"enum": ["x\nbomb"], "description": "bo\x01mb"}}}
    tool = {"type": "function", "function": {"name": "f", "parameters": hidden}}
    seen = view(requests.chat(tools=[tool], chat_template_kwargs={"a": ["x\tbomb"]}))
    assert {"x\nbomb", "x\tbomb"} <= set(seen.other_texts)
    assert seen.beside_texts == ("bo\x01mb",)


def test_prompts_of_tokens_are_seen_as_their_text_in_their_places() -> None:
    asked = requests.completion([[1, 2], [3]])
    seen = request_view(asked, endpoint="completions", token_texts=("a bomb", "behind"))
    assert (seen.prompts, seen.prompt_texts) == ((None, None), ["a bomb", "behind"])
    texts = RequestTexts(seen)
    assert texts.input_text == texts.user_text == "a bomb\nbehind"
    assert texts.last_user_text == "behind"
    assert view(asked).has_unseen_prompts
    assert not seen.has_unseen_prompts


def test_other_wires_are_seen_as_the_chats_that_they_are() -> None:
    asked = requests.response(
        [{"role": "user", "content": "Hi"}], instructions="Be good.", max_output_tokens=5
    )
    assert [one.role for one in view(asked).messages] == ["system", "user"]
    assert view(asked).parameters["max_tokens"] == 5
    asked = requests.message(system="Be good.", max_tokens=9)
    assert [one.text for one in view(asked).messages] == ["Be good.", "Hi"]
    assert view(asked).parameters["max_tokens"] == 9


@pytest.mark.parametrize("make", [requests.chat, requests.completion, requests.response, requests.message])
@pytest.mark.parametrize("name", ["skippy_hooks", "mesh_hooks"])
def test_only_true_opts_in_on_every_wire_and_nothing_of_it_is_an_unknown_field(make, name) -> None:
    assert make(**{name: True}).opts_in_hooks
    for value in (False, None, 1, "true", [True], {"on": True}):
        asked = make(**{name: value})
        assert not asked.opts_in_hooks
        assert asked.ignored_parameters == ()
