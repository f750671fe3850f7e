"""One release of held text: what goes out of it, as changed, what is kept, and what is known afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from inference.domain.message_deltas import MessageDelta, ToolCallBegin, ToolCallEnd
from inference.parsing.argument_changes import Change
from inference.parsing.argument_text import ArgumentReader, CharKind
from inference.parsing.delta_list import DeltaList
from inference.parsing.held_run import HeldRun, TextKey

# Stand in shown text for what was changed and is out: a word begins behind it where one did before.
_CHANGED, _CHANGED_WORD = "\ufffc", "\ufffcZ"


@dataclass(slots=True)
class OutText:
    """What is out of one text of an answer. `context` is its end, `num_gone` how much of what was pushed is
    out or was replaced. `is_in_scalar`: it ends within a number or the like. `is_swallowing`: one was
    replaced that may go on."""

    context: str = ""
    num_gone: int = 0
    is_in_scalar: bool = False
    is_swallowing: bool = False


class Passage:
    """`limits` say how many characters of each text go out, `changes` what is made of them: those that begin
    within their limit, and of arguments whatever belongs to one that does. Runs and marks in their order."""

    def __init__(self, limits: Mapping[TextKey, int], changes: Mapping[TextKey, Sequence[Change]]) -> None:
        self._limits = limits
        self._changes = changes
        self._places: dict[TextKey, int] = {}
        self._num_passed: dict[TextKey, int] = {}
        self._shown: dict[TextKey, list[str]] = {}
        self._out = DeltaList()

    def mark(self, mark: ToolCallBegin | ToolCallEnd) -> None:
        self._out.add_mark(mark)

    def let_out(self, run: HeldRun, num_out: int) -> HeldRun:
        """The run's first characters; returns the others."""
        key, size = run.key, len(run)
        base = self._places.get(key, 0)
        self._places[key] = base + size
        shown = self._shown.setdefault(key, [])
        kept = HeldRun(key)
        place = 0

        def move(end: int) -> None:
            border = min(max(place, num_out), end)
            self._out.add_text(key, run.written(place, border))
            shown.append(run.text[place:border])
            run.move(border, end, kept)

        for change in self._changes_in(key, base, base + size):
            start, end = max(0, change.start - base), min(size, change.end - base)
            move(start)
            if change.start < base:
                pass
            elif start < num_out:
                self._out.add_text(key, change.text)
                shown.append(_CHANGED_WORD if run.text[end - 1].isalnum() else _CHANGED)
            else:
                # Only of arguments: what one change puts in at several places.
                reader = ArgumentReader(is_string=change.is_in_string)
                kept.add_read([*reader.feed(change.text), *reader.finish()])
            place = end
        move(size)
        return kept

    def _changes_in(self, key: TextKey, start: int, end: int) -> Iterator[Change]:
        changes = self._changes.get(key, ())
        index = self._num_passed.get(key, 0)
        while index < len(changes) and changes[index].start < end:
            if changes[index].end > start:
                yield changes[index]
            if changes[index].end > end:
                # It goes on in the next run.
                break
            index += 1
        self._num_passed[key] = index

    def add(self, key: TextKey, text: str) -> None:
        """What nothing stood for."""
        self._out.add_text(key, text)

    def note_out(self, text: OutText, runs: Sequence[HeldRun], *, num_context_chars: int) -> None:
        """Once the `runs`, all of one text, are through."""
        key = runs[0].key
        limit, changes = self._limits.get(key, 0), self._changes.get(key, ())
        made = [change for change in changes if change.start < limit]
        gone = max([limit, *[change.end for change in made]])
        text.num_gone += gone
        if num_context_chars:
            text.context = (text.context + "".join(self._shown[key]))[-num_context_chars:]
        kinds = [one.kind for run in runs for one in run.characters]
        if not kinds:
            return
        if gone:
            is_changed = bool(made) and made[-1].end == gone and made[-1].text.startswith('"')
            text.is_in_scalar = kinds[gone - 1] is CharKind.SCALAR and not is_changed
        if changes and changes[-1].end == len(kinds):
            text.is_swallowing = kinds[-1] is CharKind.SCALAR and changes[-1].text.startswith('"')

    def take(self) -> tuple[MessageDelta, ...]:
        return self._out.take()
