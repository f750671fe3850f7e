"""Actions on text of an answer that has not gone out yet, and what has come of it after several of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hooks.contracts.actions import Action, MaskText, ReplaceText, TextTarget
from hooks.contracts.decisions import TextEdit
from hooks.contracts.view import OutputText
from hooks.matching import mask_compiled
from hooks.matching.edited_text import EditedText, Replacement

TextPlace = tuple[TextTarget, int | None]
"""Which of its texts: the content, the thinking, or the arguments of the call of this index."""


@dataclass(frozen=True, slots=True, repr=False)
class OutputDraft:
    """What policies see of an answer, and what they have made of it so far."""

    texts: Mapping[TextPlace, EditedText]

    @property
    def edits(self) -> tuple[TextEdit, ...]:
        return tuple(
            [
                TextEdit(target, one.start, one.end, one.text, call)
                for (target, call), text in self.texts.items()
                for one in text.replacements
            ]
        )

    @property
    def num_chars(self) -> int:
        return sum([len(text.text) for text in self.texts.values()])

    def with_text(self, place: TextPlace, text: EditedText) -> OutputDraft:
        return replace(self, texts={**self.texts, place: text})

    def __repr__(self) -> str:
        return f"<OutputDraft of {len(self.texts)} texts>"


def output_draft(output: OutputText) -> OutputDraft:
    texts: dict[TextPlace, str] = {
        (TextTarget.CONTENT, None): output.content,
        (TextTarget.REASONING, None): output.reasoning,
        **{(TextTarget.ARGUMENTS, call): text for call, text in output.arguments.items()},
    }
    return OutputDraft({place: EditedText(text) for place, text in texts.items()})


def apply_to_output(draft: OutputDraft, action: Action) -> OutputDraft:
    """The draft with it; the same object where it changes nothing. Raises MaskFailed."""
    match action:
        case MaskText():
            return _masked(draft, action)
        case ReplaceText():
            return _replaced(draft, action)
        case _:
            return draft


def _masked(draft: OutputDraft, action: MaskText) -> OutputDraft:
    mask = mask_compiled(action)
    for place, text in draft.texts.items():
        target, _ = place
        if target not in action.targets or not text.text:
            continue
        # Arguments come without the escapes of their own strings; such a string may be JSON, too.
        found = [Replacement(*span, mask.replacement) for span in mask.spans_either_way(text.readings)]
        if found:
            draft = draft.with_text(place, text.replaced(found))
    return draft


def _replaced(draft: OutputDraft, action: ReplaceText) -> OutputDraft:
    for place, text in draft.texts.items():
        target, _ = place
        if target is action.target:
            draft = draft.with_text(place, text.replaced([Replacement(0, len(text.text), action.text)]))
    return draft
