"""Edits of what was shown, as changes of what is held."""

from __future__ import annotations

from collections.abc import Sequence

from hooks.contracts.decisions import TextEdit
from inference.parsing.argument_changes import Change
from inference.parsing.held_run import HeldRun, TextKey


def wanted_changes(
    edits: Sequence[TextEdit], key: TextKey, runs: Sequence[HeldRun], *, num_context_chars: int
) -> list[Change]:
    """Those of one text, in order and apart, in places of what `runs` hold of it; it was shown behind
    `num_context_chars` of what is out already, which nothing changes any more. Nothing is put between two
    characters; into a text that is empty, it is."""
    size = sum([len(run) for run in runs])
    found: list[Change] = []
    target, call = key
    for edit in edits:
        if edit.target is not target or edit.call != call:
            continue
        start, end = edit.start - num_context_chars, edit.end - num_context_chars
        start, end = max(0, start), min(size, end)
        if end > start or (not size and start == end):
            found.append(Change(start, end, _as_unicode(edit.text)))
    return found


def _as_unicode(text: str) -> str:
    """A webhook's JSON may hold halves of surrogate pairs, which no wire can say."""
    return text.encode("utf-8", "replace").decode()
