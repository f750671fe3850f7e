"""One action on text of an answer that has not gone out yet."""

from __future__ import annotations

from dataclasses import replace

from hooks.contracts.actions import Action, MaskText, ReplaceText, TextTarget
from hooks.contracts.view import OutputText
from hooks.matching import mask_compiled


def apply_to_output(output: OutputText, action: Action, *, held_chars: int) -> OutputText:
    """The text with it; the same object where it changes nothing. Of a stream `held_chars` are held back
    when this is done: what is found at the very end of these may go on, and is masked when it is whole.
    Raises MaskFailed."""
    match action:
        case MaskText():
            return _masked(output, action, held_chars)
        case ReplaceText():
            return _replaced(output, action)
        case _:
            return output


def _masked(output: OutputText, action: MaskText, held_chars: int) -> OutputText:
    mask = mask_compiled(action)

    def masked(text: str, target: TextTarget) -> str:
        if target not in action.targets:
            return text
        open_from = None if output.is_last else len(text) - held_chars
        return mask.masked(text, is_json=target is TextTarget.ARGUMENTS, open_from=open_from)

    content = masked(output.content, TextTarget.CONTENT)
    reasoning = masked(output.reasoning, TextTarget.REASONING)
    arguments = {place: masked(text, TextTarget.ARGUMENTS) for place, text in output.arguments.items()}
    if (content, reasoning, arguments) == (output.content, output.reasoning, dict(output.arguments)):
        return output
    return replace(output, content=content, reasoning=reasoning, arguments=arguments)


def _replaced(output: OutputText, action: ReplaceText) -> OutputText:
    match action.target:
        case TextTarget.CONTENT:
            return replace(output, content=action.text)
        case TextTarget.REASONING:
            return replace(output, reasoning=action.text)
        case TextTarget.ARGUMENTS:
            return replace(output, arguments=dict.fromkeys(output.arguments, action.text))
        case _:
            return output
