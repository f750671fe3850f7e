"""Actions on a request give a new view, and leave what they do not touch as the same object."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from hooks.applying import ActionRefused, MaskIncomplete, apply_to_request
from hooks.contracts.actions import (
    AddSystemPrompt,
    ClampParameter,
    ConsumeMedia,
    Deny,
    InjectText,
    MaskKind,
    MaskText,
    ReplaceText,
    SetParameter,
    Tag,
    TextTarget,
)
from hooks.contracts.view import MediaPartView, MediaSort, MessageView, RequestView, TextPart
from hooks.matching import MAX_MASKED_CHARS, MaskFailed
from tests.hook_parts import chat, said

IMAGE = MediaPartView(MediaSort.IMAGE, "https://x/cat.png", 0)
SOUND = MediaPartView(MediaSort.AUDIO, "data:abc", 1)
SHOWN = MessageView("user", (TextPart("look"), IMAGE, SOUND), is_text=False)
TOKENS = RequestView(endpoint="completions", model="m", prompts=("text", None))


def completion(*prompts: str) -> RequestView:
    return RequestView(endpoint="completions", model="m", prompts=prompts)


def texts(view: RequestView) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in view.messages]


def test_injected_text_goes_in_front_of_the_last_user_message_with_nothing_between():
    view = chat(said("first"), said("yes", "assistant"), said("last"), said("tail", "assistant"))

    changed = apply_to_request(view, InjectText("note:"))

    assert texts(changed)[2] == ("user", "note:last")
    assert [one is other for one, other in zip(changed.messages, view.messages, strict=True)] == [
        True,
        True,
        False,
        True,
    ]


def test_injected_text_is_the_first_part_of_a_message_in_parts():
    (message,) = apply_to_request(chat(SHOWN), InjectText("note")).messages

    assert message.parts == (TextPart("note"), *SHOWN.parts)
    assert not message.is_text


def test_injected_text_takes_the_place_of_no_content():
    (message,) = apply_to_request(chat(MessageView("user", ())), InjectText("note")).messages

    assert message.parts == (TextPart("note"),)


def test_without_a_user_message_injected_text_becomes_one():
    changed = apply_to_request(chat(said("s", "system")), InjectText("note"))

    assert texts(changed) == [("system", "s"), ("user", "note")]
    assert changed.messages[1].place is None


def test_empty_text_is_not_injected():
    view = chat("hi")

    assert apply_to_request(view, InjectText("")) is view
    assert apply_to_request(view, AddSystemPrompt("")) is view


def test_prompts_get_injected_text_each():
    assert apply_to_request(completion("a", "b"), InjectText("x ")).prompts == ("x a", "x b")


@pytest.mark.parametrize(
    "action",
    [InjectText("x"), AddSystemPrompt("x")],
)
def test_a_prompt_that_came_as_tokens_cannot_be_changed(action):
    with pytest.raises(ActionRefused):
        apply_to_request(TOKENS, action)


MASK_X = MaskText((TextTarget.INPUT,), words=("x",))


def test_a_mask_says_where_it_cannot_look_and_masks_the_rest():
    with pytest.raises(MaskIncomplete) as unseen:
        apply_to_request(replace(TOKENS, prompts=("an x", None)), MASK_X)
    assert unseen.value.view.prompts == ("an ***", None)


def test_a_prompt_of_tokens_whose_text_is_known_stays_where_there_is_nothing_to_mask():
    known = replace(TOKENS, prompts=("an x", None), token_texts=("a y",))
    assert apply_to_request(known, MASK_X).prompts == ("an ***", None)


@pytest.mark.parametrize(
    "members",
    [{"other_texts": ("enum", "an X")}, {"token_texts": ("x",), "prompts": (None,), "messages": ()}],
)
def test_a_mask_says_what_it_found_where_nothing_can_be_masked(members):
    with pytest.raises(MaskIncomplete):
        apply_to_request(chat("hi", **members), MASK_X)


def test_what_is_told_beside_turns_and_names_are_masked_too():
    view = chat(MessageView("user", (TextPart("hi"),), name="x"), beside_texts=("finds x", "y"))
    masked = apply_to_request(view, MASK_X)
    assert masked.beside_texts == ("finds ***", "y")
    assert masked.messages[0].name == "***"


def test_escapes_are_masked_in_any_text_that_may_be_json():
    view = chat(said(r'{"a": "an \u0078", "path": "C:\x"}', "tool"))
    assert texts(apply_to_request(view, MASK_X)) == [("tool", r'{"a": "an ***", "path": "C:\***"}')]


def test_a_system_prompt_is_made_where_there_is_none():
    assert texts(apply_to_request(chat("hi"), AddSystemPrompt("rules")))[0] == ("system", "rules")


@pytest.mark.parametrize("role", ["system", "developer"])
@pytest.mark.parametrize(("is_before", "text"), [(True, "rules\n\nown"), (False, "own\n\nrules")])
def test_a_system_prompt_joins_the_one_that_is_there(role, is_before, text):
    changed = apply_to_request(chat(said("own", role), "hi"), AddSystemPrompt("rules", is_before=is_before))

    assert texts(changed) == [(role, text), ("user", "hi")]


def test_a_system_prompt_in_parts_gets_a_part():
    parts = MessageView("system", (TextPart("own"),), is_text=False)

    before = apply_to_request(chat(parts), AddSystemPrompt("rules")).messages[0]
    behind = apply_to_request(chat(parts), AddSystemPrompt("rules", is_before=False)).messages[0]

    assert before.parts == (TextPart("rules"), TextPart("own"))
    assert behind.parts == (TextPart("own"), TextPart("rules"))


def test_a_system_prompt_that_is_there_already_is_not_added_again():
    view = chat(said("you know the rules", "system"), "hi")

    assert apply_to_request(view, AddSystemPrompt("the rules")) is view
    assert apply_to_request(view, AddSystemPrompt("the rules", unless_present=False)) is not view


def test_an_empty_system_prompt_is_filled():
    empty = MessageView("system", (TextPart(""),))

    assert apply_to_request(chat(empty), AddSystemPrompt("rules")).messages[0].parts == (TextPart("rules"),)


def test_the_first_medium_of_the_last_user_message_is_taken():
    (message,) = apply_to_request(chat(SHOWN), ConsumeMedia(user_text="a cat")).messages

    assert message.parts == (TextPart("look"), TextPart("a cat"), SOUND)


@pytest.mark.parametrize(
    ("action", "left"),
    [
        (ConsumeMedia(message_index=0, part_index=2), (TextPart("look"), IMAGE)),
        (ConsumeMedia(sort=MediaSort.IMAGE, url="https://x/cat.png"), (TextPart("look"), SOUND)),
        (
            ConsumeMedia(sort=MediaSort.AUDIO, url="data:abc", message_index=0, part_index=2),
            (TextPart("look"), IMAGE),
        ),
    ],
)
def test_a_medium_that_is_meant_is_taken(action, left):
    assert apply_to_request(chat(SHOWN), action).messages[0].parts == left


@pytest.mark.parametrize(
    "action",
    [
        ConsumeMedia(message_index=1),
        ConsumeMedia(message_index=-1),
        ConsumeMedia(message_index=7),
        ConsumeMedia(message_index=0, part_index=0),
        ConsumeMedia(message_index=0, part_index=9),
        ConsumeMedia(message_index=0, part_index=-1),
        ConsumeMedia(message_index=0, part_index=1, sort=MediaSort.AUDIO),
        ConsumeMedia(message_index=0, part_index=1, url="https://x/dog.png"),
        ConsumeMedia(url="https://x/dog.png"),
    ],
)
def test_another_medium_than_the_one_that_is_meant_stays(action):
    view = chat(SHOWN, MessageView("assistant", (IMAGE,), is_text=False))

    with pytest.raises(ActionRefused):
        apply_to_request(view, action)


@pytest.mark.parametrize("sort", MediaSort)
def test_only_the_last_user_message_gives_its_first_medium(sort):
    first, second = MediaPartView(sort, "data:1", 0), MediaPartView(sort, "data:2", 1)
    earlier = MessageView("user", (first,), is_text=False)
    last = MessageView("user", (TextPart("and"), second, first), is_text=False)

    changed = apply_to_request(chat(earlier, last, said("yes", "assistant")), ConsumeMedia(sort=sort))

    assert changed.messages[0] is earlier
    assert changed.messages[1].parts == (TextPart("and"), first)
    with pytest.raises(ActionRefused):
        apply_to_request(chat(earlier, "words"), ConsumeMedia())


def test_where_there_is_no_user_there_is_no_medium():
    with pytest.raises(ActionRefused):
        apply_to_request(chat(said("s", "system")), ConsumeMedia())
    with pytest.raises(ActionRefused):
        apply_to_request(chat("words"), ConsumeMedia())


def test_parameters_are_set_and_taken_away():
    view = chat("hi", parameters={"temperature": 1.0, "n": 3})

    changed = apply_to_request(view, SetParameter("temperature", 0.0))
    gone = apply_to_request(changed, SetParameter("n", None))

    assert gone.parameters == {"temperature": 0.0}
    assert apply_to_request(view, SetParameter("n", 3)) is view
    assert apply_to_request(view, SetParameter("top_p", None)) is view
    assert view.parameters == {"temperature": 1.0, "n": 3}


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_number_is_not_set(value):
    with pytest.raises(ActionRefused):
        apply_to_request(chat("hi"), SetParameter("temperature", value))


@pytest.mark.parametrize(
    ("given", "action", "kept"),
    [
        ({"max_tokens": 900}, ClampParameter("max_tokens", maximum=100.0), {"max_tokens": 100}),
        ({"max_tokens": 50}, ClampParameter("max_tokens", maximum=100), {"max_tokens": 50}),
        ({}, ClampParameter("max_tokens", maximum=100), {"max_tokens": 100}),
        ({"max_tokens": None}, ClampParameter("max_tokens", maximum=100), {"max_tokens": 100}),
        ({"max_tokens": 900}, ClampParameter("max_completion_tokens", maximum=100), {"max_tokens": 100}),
        ({}, ClampParameter("max_output_tokens", maximum=100), {"max_tokens": 100}),
        ({"temperature": 0.1}, ClampParameter("temperature", minimum=0.5), {"temperature": 0.5}),
        ({}, ClampParameter("temperature", minimum=0.5), {}),
        ({"temperature": math.nan}, ClampParameter("temperature", maximum=1), {"temperature": 1}),
        ({}, ClampParameter("n", maximum=4), {}),
        ({}, ClampParameter("n", minimum=2), {"n": 2}),
        ({"n": 9}, ClampParameter("n", maximum=4), {"n": 4}),
        ({}, ClampParameter("temperature", maximum=0.7), {"temperature": 0.7}),
        ({"n": 3}, ClampParameter("n"), {"n": 3}),
    ],
)
def test_a_parameter_is_kept_within_bounds(given, action, kept):
    assert dict(apply_to_request(chat("hi", parameters=given), action).parameters) == kept


@pytest.mark.parametrize("value", [True, "many"])
def test_what_is_no_number_cannot_be_clamped(value):
    with pytest.raises(ActionRefused):
        apply_to_request(chat("hi", parameters={"n": value}), ClampParameter("n", maximum=1))


def test_input_is_masked_wherever_it_stands():
    view = chat(
        said("a@b.co", "system"),
        MessageView("user", (TextPart("x a@b.co"), IMAGE), is_text=False),
        MessageView("assistant", (), reasoning="a@b.co?", tool_arguments=(r'{"to":"a\u0040b.co"}',)),
        said("nothing"),
    )

    changed = apply_to_request(view, MaskText((TextTarget.INPUT,), kinds=(MaskKind.EMAIL,)))

    assert texts(changed)[:2] == [("system", "***"), ("user", "x ***")]
    assert changed.messages[1].parts[1] is IMAGE
    assert changed.messages[2].reasoning == "***?"
    assert changed.messages[2].tool_arguments == ('{"to":"***"}',)
    assert changed.messages[3] is view.messages[3]


def test_more_text_than_can_be_masked_is_a_failure():
    half = "x" * (MAX_MASKED_CHARS // 2 + 1)

    with pytest.raises(MaskFailed):
        apply_to_request(chat(half, half), MaskText((TextTarget.INPUT,), words=("y",)))


def test_prompts_are_masked():
    masked = apply_to_request(completion("my secret", "x"), MaskText((TextTarget.INPUT,), words=("secret",)))

    assert masked.prompts == ("my ***", "x")


@pytest.mark.parametrize("view", [chat("hi"), completion("x")])
def test_where_nothing_is_to_be_done_the_view_stays_the_same(view):
    for action in (
        MaskText((TextTarget.INPUT,), words=("absent",)),
        MaskText((TextTarget.CONTENT,), words=("hi", "x")),
        ReplaceText(TextTarget.CONTENT, "y"),
        Tag("t"),
        Deny("no"),
    ):
        assert apply_to_request(view, action) is view


def test_the_last_user_message_is_replaced_and_its_media_stay():
    changed = apply_to_request(chat("old", SHOWN), ReplaceText(TextTarget.INPUT, "new"))

    assert texts(changed) == [("user", "old"), ("user", "new")]
    assert changed.messages[1].parts == (IMAGE, SOUND, TextPart("new"))
    assert apply_to_request(completion("a", "b"), ReplaceText(TextTarget.INPUT, "c")).prompts == ("c", "c")
    with pytest.raises(ActionRefused):
        apply_to_request(chat(said("s", "system")), ReplaceText(TextTarget.INPUT, "new"))
