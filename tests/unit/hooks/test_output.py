"""hooks/applying/output.py: what several actions make of an answer's texts, in places of the original."""

from __future__ import annotations

from hooks.applying import OutputDraft, apply_to_output, output_draft
from hooks.contracts.actions import Action, MaskKind, MaskText, ReplaceText, StopGeneration, TextTarget
from hooks.contracts.decisions import TextEdit
from hooks.contracts.view import OutputText

CONTENT, REASONING, ARGUMENTS = TextTarget.CONTENT, TextTarget.REASONING, TextTarget.ARGUMENTS


def drafted(output: OutputText, *actions: Action) -> OutputDraft:
    draft = output_draft(output)
    for action in actions:
        draft = apply_to_output(draft, action)
    return draft


def test_words_are_masked_where_they_are_to_be() -> None:
    output = OutputText(0, content="a Se\u200bcret", reasoning="secret", arguments={2: '{"q":"secret"}'})
    mask = MaskText((CONTENT, ARGUMENTS), words=("secret",))
    assert drafted(output, mask).edits == (
        TextEdit(CONTENT, 2, 9, "***"),
        TextEdit(ARGUMENTS, 6, 12, "***", call=2),
    )


def test_a_later_action_sees_what_an_earlier_one_made() -> None:
    output = OutputText(0, content="write to me@home.org")
    draft = drafted(
        output,
        MaskText((CONTENT,), kinds=(MaskKind.EMAIL,), replacement="[an address]"),
        MaskText((CONTENT,), words=("home", "address"), replacement="x"),
    )
    assert draft.edits == (TextEdit(CONTENT, 9, 20, "[an x]"),)


def test_all_of_a_target_is_replaced() -> None:
    output = OutputText(0, content="abc", arguments={0: "{}", 1: '{"a":1}'})
    assert drafted(output, ReplaceText(CONTENT, "No.")).edits == (TextEdit(CONTENT, 0, 3, "No."),)
    assert drafted(output, ReplaceText(ARGUMENTS, "{}")).edits == (
        TextEdit(ARGUMENTS, 0, 2, "{}", call=0),
        TextEdit(ARGUMENTS, 0, 7, "{}", call=1),
    )


def test_json_within_arguments_is_read_too() -> None:
    output = OutputText(0, arguments={0: r'{"body":"{"q":"\u0062lock"}"}'})
    (edit,) = drafted(output, MaskText((ARGUMENTS,), words=("block",))).edits
    assert output.arguments[0][edit.start : edit.end] == r"\u0062lock"


def test_what_is_no_change_of_text_leaves_the_draft_as_it_is() -> None:
    draft = output_draft(OutputText(0, content="abc"))
    for action in (
        StopGeneration(),
        MaskText((CONTENT,), words=("z",)),
        MaskText((REASONING,), words=("abc",)),
    ):
        assert apply_to_output(draft, action) is draft
    assert draft.edits == ()
