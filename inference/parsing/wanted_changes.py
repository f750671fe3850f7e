"""Edits of what was shown, as changes of what is held."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from hooks.contracts.decisions import TextEdit
from inference.parsing.argument_changes import Change
from inference.parsing.held_run import HeldRun, TextKey


def wanted_changes(
    edits: Sequence[TextEdit], key: TextKey, runs: Sequence[HeldRun], *, num_context_chars: int
) -> list[Change]:
    """Those of one text, in order and apart, in places of what `runs` hold of it; it was shown behind
    `num_context_chars` of what is out already, which nothing changes any more. Edits of arguments as they
    are written become such of what is read. Nothing is put between two characters; into a text that is
    empty, it is."""
    size = sum([len(run) for run in runs])
    found: list[Change] = []
    target, call = key
    ends: list[int] | None = None
    for edit in edits:
        if edit.target is not target or edit.call != call:
            continue
        start, end = edit.start - num_context_chars, edit.end - num_context_chars
        if edit.is_raw and end > 0:
            if ends is None:
                ends = list(accumulate([len(one.written) for run in runs for one in run.characters]))
            start, end = bisect_right(ends, start), bisect_right(ends, end - 1) + 1
        start, end = max(0, start), min(size, end)
        if end > start or (not size and start == end):
            found.append(Change(start, end, _as_unicode(edit.text)))
    return _apart(sorted(found, key=lambda change: (change.start, change.end)))


def _apart(changes: Sequence[Change]) -> list[Change]:
    """Where the same was found twice, as it reads and as it is written, it is changed once."""
    apart: list[Change] = []
    for change in changes:
        if apart and change.start < apart[-1].end:
            last = apart.pop()
            apart.append(Change(last.start, max(last.end, change.end), last.text))
        else:
            apart.append(change)
    return apart


def _as_unicode(text: str) -> str:
    """A webhook's JSON may hold halves of surrogate pairs, which no wire can say."""
    return text.encode("utf-8", "replace").decode()
