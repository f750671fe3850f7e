"""inference/parsing/output_window.py: single cases; any cut of any answer is in tests/properties."""

from __future__ import annotations

import json

import pytest

from hooks.contracts.actions import TextTarget
from hooks.contracts.decisions import TextEdit
from inference.domain.message_deltas import (
    ContentDelta,
    MessageDelta,
    ReasoningDelta,
    ToolCallArguments,
    ToolCallBegin,
    ToolCallEnd,
)
from inference.parsing.output_window import OutputWindow

CONTENT, REASONING, ARGUMENTS = TextTarget.CONTENT, TextTarget.REASONING, TextTarget.ARGUMENTS
BEGIN, END = ToolCallBegin(0, "call_0", "look_up"), ToolCallEnd(0)


def window_with(*deltas: MessageDelta, held_chars: int | None = None) -> OutputWindow:
    window = OutputWindow(held_chars=held_chars)
    window.push(deltas)
    return window


def arguments_after(text: str, *edits: TextEdit) -> str:
    window = window_with(BEGIN, ToolCallArguments(0, text), END)
    window.close()
    return "".join([one.text for one in window.release(edits).deltas if isinstance(one, ToolCallArguments)])


def argument_edit(text: str, word: str, put: str = "***") -> TextEdit:
    start = text.index(word)
    return TextEdit(ARGUMENTS, start, start + len(word), put, call=0)


def test_a_whole_answer_is_shown_once_with_all_its_texts() -> None:
    window = window_with(
        ReasoningDelta("I think"),
        ContentDelta("I "),
        ContentDelta("say"),
        BEGIN,
        ToolCallArguments(0, r'{"q":"\u0062'),
        ToolCallArguments(0, 'lock"}'),
        END,
        ContentDelta(" more"),
    )
    assert not window.is_due
    window.close()
    shown = window.view(3)
    assert (shown.choice, shown.is_last, shown.num_released_chars) == (3, True, 0)
    assert (shown.content, shown.reasoning) == ("I say more", "I think")
    assert shown.arguments == {0: '{"q":"block"}'}
    assert shown.raw_arguments == {0: r'{"q":"\u0062lock"}'}
    assert shown.tool_names == {0: "look_up"}


def test_arguments_without_escapes_are_shown_once() -> None:
    window = window_with(BEGIN, ToolCallArguments(0, '{"q":1}'), END)
    assert window.view(0).raw_arguments == {}


def test_content_goes_out_up_to_the_held_characters() -> None:
    window = window_with(ContentDelta("x" * 100), held_chars=40)
    assert window.is_due
    released = window.release()
    assert (released.deltas, released.num_content_chars) == ((ContentDelta("x" * 60),), 60)
    assert not window.is_due
    assert window.view(0).num_released_chars == 60


def test_a_change_that_begins_before_the_cut_is_made_as_a_whole() -> None:
    window = window_with(ContentDelta("a" * 58 + "secret" + "b" * 36), held_chars=40)
    released = window.release([TextEdit(CONTENT, 58, 64, "***")])
    assert released.deltas == (ContentDelta("a" * 58 + "***"),)
    window.close()
    assert window.view(0).content.endswith("a\ufffcZ" + "b" * 36)
    assert window.release().deltas == (ContentDelta("b" * 36),)
    assert window.has_changed


def test_a_change_behind_the_cut_waits_until_it_is_seen_again() -> None:
    window = window_with(ContentDelta("a" * 70 + "secret" + "b" * 24), held_chars=40)
    assert window.release([TextEdit(CONTENT, 70, 76, "***")]).deltas == (ContentDelta("a" * 60),)
    assert not window.has_changed


def test_calls_wait_for_what_was_said_before_them() -> None:
    window = window_with(
        ContentDelta("c" * 50), BEGIN, ToolCallArguments(0, '{"a":"' + "b" * 30), held_chars=40
    )
    assert window.release().deltas == (ContentDelta("c" * 46),)
    window.push([ToolCallArguments(0, "b" * 40 + '"}'), END])
    assert window.release().deltas == (
        ContentDelta("cccc"),
        BEGIN,
        ToolCallArguments(0, '{"a":"' + "b" * 32),
    )


def test_a_word_that_an_interruption_cuts_is_changed_where_it_begins() -> None:
    window = window_with(ContentDelta("a bl"), ReasoningDelta("hm"), ContentDelta("ock b"))
    window.close()
    assert window.view(0).content == "a block b"
    assert window.release([TextEdit(CONTENT, 2, 7, "***")]).deltas == (
        ContentDelta("a ***"),
        ReasoningDelta("hm"),
        ContentDelta(" b"),
    )


def test_of_a_word_that_began_in_what_is_out_the_rest_is_changed() -> None:
    window = window_with(ContentDelta("bl"), ReasoningDelta("r" * 90), held_chars=40)
    assert window.release().deltas == (ContentDelta("bl"), ReasoningDelta("r" * 50))
    window.push([ContentDelta("ock")])
    window.close()
    assert window.view(0).content == "block"
    released = window.release([TextEdit(CONTENT, 0, 5, "***")])
    assert released.deltas == (ReasoningDelta("r" * 40), ContentDelta("***"))


def test_changes_of_what_is_out_are_void() -> None:
    window = window_with(ContentDelta("x" * 100), held_chars=40)
    window.release()
    window.close()
    assert window.release([TextEdit(CONTENT, 0, 10, "***")]).deltas == (ContentDelta("x" * 40),)


@pytest.mark.parametrize(
    ("text", "word", "expected"),
    [
        ('{"q":"a block b"}', "block", '{"q":"a *** b"}'),
        ('{"block":1}', "block", '{"***":1}'),
        ('{"card": 4111111111111111}', "4111111111111111", '{"card": "***"}'),
        ('{"card":[14111,2]}', "411", '{"card":["***",2]}'),
        ('{"a":"b","c":"d"}', 'b","c":"d', '{"a":"***","***":"***"}'),
        ('{"a":true}', "true", '{"a":"***"}'),
        ('{"a":"b"}', '{"', '{"a":"b"}'),
    ],
)
def test_masked_arguments_stay_json(text: str, word: str, expected: str) -> None:
    masked = arguments_after(text, argument_edit(text, word))
    assert masked == expected
    json.loads(masked)


def test_what_is_put_into_a_string_is_escaped() -> None:
    text = '{"q":"block"}'
    assert json.loads(arguments_after(text, argument_edit(text, "block", 'a"\n\\'))) == {"q": 'a"\n\\'}


def test_an_escaped_word_is_changed_as_a_whole() -> None:
    written = r'{"q":"\u0062lock it"}'
    assert arguments_after(written, argument_edit('{"q":"block it"}', "block")) == '{"q":"*** it"}'


def test_all_arguments_can_be_replaced_by_others() -> None:
    text = '{"path":"/etc"}'
    assert arguments_after(text, argument_edit(text, text, '{"path":"/tmp"}')) == '{"path":"/tmp"}'
    assert json.loads(arguments_after(text, argument_edit(text, text, "no json"))) == {"no json": "no json"}


def test_a_number_whose_beginning_is_out_stays_one() -> None:
    window = window_with(BEGIN, ToolCallArguments(0, '{"n":' + "9" * 75), held_chars=40)
    window.release()
    window.push([ToolCallArguments(0, "}"), END])
    window.close()
    shown = window.view(0).arguments[0]
    released = window.release([TextEdit(ARGUMENTS, 0, len(shown), "***", call=0)])
    assert released.deltas == (ToolCallArguments(0, "1" * 40 + "}"), END)


def test_a_number_that_was_replaced_and_goes_on_is_gone() -> None:
    window = window_with(BEGIN, ToolCallArguments(0, '{"n":' + "9" * 75), held_chars=40)
    released = window.release([TextEdit(ARGUMENTS, 5, 80, "***", call=0)])
    assert released.deltas == (BEGIN, ToolCallArguments(0, '{"n":"***"'))
    window.push([ToolCallArguments(0, "99"), ToolCallArguments(0, "9,"), ToolCallArguments(0, '"m":1}'), END])
    window.close()
    assert window.release().deltas == (ToolCallArguments(0, ',"m":1}'), END)


def test_dropped_text_is_gone_but_for_what_stands_for_all_of_it() -> None:
    window = window_with(ContentDelta("x" * 100), held_chars=40)
    window.release()
    window.push([ContentDelta("y" * 50), BEGIN])
    size = len(window.view(0).content)
    released = window.drop([TextEdit(CONTENT, size - 3, size, "***"), TextEdit(REASONING, 0, 0, "")])
    assert released.deltas == ()
    window.push([ContentDelta("z")])
    size = len(window.view(0).content)
    assert window.drop([TextEdit(CONTENT, 0, size, "Enough.")]).deltas == (ContentDelta("Enough."),)


def test_content_can_be_put_into_an_answer_that_has_none() -> None:
    window = window_with(BEGIN, ToolCallArguments(0, "{}"), END)
    window.close()
    released = window.release([TextEdit(CONTENT, 0, 0, "said")])
    assert released.deltas == (BEGIN, ToolCallArguments(0, "{}"), END, ContentDelta("said"))


def test_characters_of_no_width_do_not_move_the_window() -> None:
    window = window_with(ContentDelta("b" + "\u200b" * 500 + "lock" + "e\u0301" * 80), held_chars=80)
    window.push([ContentDelta("f" * 80)])
    assert window.release().deltas == (ContentDelta("b" + "\u200b" * 500 + "lock" + "e\u0301" * 80),)


def test_halves_of_surrogate_pairs_are_not_released() -> None:
    window = window_with(ContentDelta("ab"))
    window.close()
    (delta,) = window.release([TextEdit(CONTENT, 0, 1, "\ud800")]).deltas
    assert delta == ContentDelta("?b")


def test_an_answer_that_ends_within_a_call_ends_within_it() -> None:
    window = window_with(BEGIN, ToolCallArguments(0, '{"a":"\\u00'))
    window.close()
    assert window.release().deltas == (BEGIN, ToolCallArguments(0, '{"a":"\\u00'))
