"""What of an answer is held back until it has been seen, and goes out as those who saw it left it.

A word must be seen whole before any of it is out, however the model's text is cut. So text goes in as it is
generated and comes out when enough of it stands behind: a piece is released only after it was shown together
with the `held_chars` characters that follow it in the answer, thinking and calls counted alike. All of it
keeps its order.

Each text of the answer (content, thinking, the arguments of each call) is shown by itself, with the end of
what is out of it already in front, so that a word which an interruption cuts is seen as well, and the
beginning of the window is not taken for the beginning of a word. A change is made when its first character is
released: by then all of what it may stand for has been seen, if that is not longer than `held_chars`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from hooks.contracts.actions import StopReason, TextTarget
from hooks.contracts.decisions import OutputVerdict, TextEdit
from hooks.contracts.view import OutputText
from inference.domain.message_deltas import (
    ContentDelta,
    MessageDelta,
    ReasoningDelta,
    ToolCallArguments,
    ToolCallBegin,
    ToolCallEnd,
)
from inference.parsing.argument_changes import Change, argument_changes
from inference.parsing.argument_text import ArgumentReader, CharKind, ReadCharacter
from inference.parsing.delta_list import DeltaList
from inference.parsing.held_run import HeldRun, TextKey
from inference.parsing.passage import OutText, Passage
from inference.parsing.read_size import place_before, read_size
from inference.parsing.wanted_changes import wanted_changes

MIN_STEP_CHARS, MAX_STEP_CHARS = 32, 512
MIN_CONTEXT_CHARS = 32
LARGE_CHARS = 32_768
CONTENT: TextKey = (TextTarget.CONTENT, None)
REASONING: TextKey = (TextTarget.REASONING, None)


@dataclass(frozen=True, slots=True)
class Released:
    """`changes` are those of the content, in places of all content that was pushed; `num_content_chars` is
    how much of that is out, or gone, now."""

    deltas: tuple[MessageDelta, ...] = ()
    changes: tuple[Change, ...] = ()
    num_content_chars: int = 0


class OutputWindow:
    """Of one choice. `push` what is generated, `close` at its end; when `is_due`, and at the end, show `view`
    and `release` with the edits that came of it. `held_chars` None: a whole answer, which is shown once.
    `seen_chars`: so much of a text is to be seen at once, also where less is held.

    Work for a delta is linear in its text, for a view and a release in what is held.
    """

    def __init__(self, *, held_chars: int | None, seen_chars: int = 0) -> None:
        self._held_chars = held_chars
        size = held_chars or 0
        self._due_chars = size + min(max(size or seen_chars, MIN_STEP_CHARS), MAX_STEP_CHARS)
        context_chars = max(size, seen_chars, MIN_CONTEXT_CHARS)
        self._num_context_chars = 0 if held_chars is None else context_chars
        self._items: list[HeldRun | ToolCallBegin | ToolCallEnd] = []
        self._num_held_chars = 0
        self._num_out_chars = 0
        self._texts: dict[TextKey, OutText] = {}
        self._readers: dict[int, ArgumentReader] = {}
        self._is_closed = False
        self.has_changed = False
        """Anything of the answer went out other than it was generated."""

    @property
    def is_due(self) -> bool:
        return self._held_chars is not None and self._num_held_chars >= self._due_chars

    @property
    def is_large(self) -> bool:
        """Views and releases take milliseconds."""
        return self._num_held_chars > LARGE_CHARS

    @property
    def is_empty(self) -> bool:
        return not self._items

    # -- in ---------------------------------------------------------------------------------------

    def push(self, deltas: Iterable[MessageDelta]) -> None:
        for delta in deltas:
            match delta:
                case ContentDelta(text):
                    self._add(CONTENT, text)
                case ReasoningDelta(text):
                    self._add(REASONING, text)
                case ToolCallBegin(index):
                    self._readers[index] = ArgumentReader()
                    self._items.append(delta)
                case ToolCallArguments(index, text):
                    self._add_arguments(index, self._readers[index].feed(text))
                case ToolCallEnd(index):
                    self._add_arguments(index, self._readers.pop(index).finish())
                    self._items.append(delta)

    def close(self) -> None:
        """The answer has ended, perhaps in the middle of a call."""
        self._is_closed = True
        for index, reader in self._readers.items():
            self._add_arguments(index, reader.finish())
        self._readers = {}

    def _add(self, key: TextKey, text: str) -> None:
        if text:
            run = self._run(key)
            self._num_held_chars += read_size(text, before=run.last)
            run.add(text)

    def _add_arguments(self, index: int, characters: list[ReadCharacter]) -> None:
        key = (TextTarget.ARGUMENTS, index)
        text = self._texts.get(key)
        if text is not None and text.is_swallowing:
            num = 0
            while num < len(characters) and characters[num].kind is CharKind.SCALAR:
                num += 1
            text.is_swallowing = num == len(characters)
            characters = characters[num:]
        if characters:
            run = self._run(key)
            before = run.last
            run.add_read(characters)
            self._num_held_chars += read_size("".join([one.text for one in characters]), before=before)

    def _run(self, key: TextKey) -> HeldRun:
        last = self._items[-1] if self._items else None
        if not isinstance(last, HeldRun) or last.key != key:
            last = HeldRun(key)
            self._items.append(last)
        return last

    # -- what is seen -----------------------------------------------------------------------------

    def view(self, choice: int) -> OutputText:
        read: dict[TextKey, str] = {}
        written: dict[TextKey, str] = {}
        for key, runs in self._held_runs().items():
            context = self._text(key).context
            read[key] = context + "".join([run.text for run in runs])
            written[key] = context + "".join([run.written(0, len(run)) for run in runs])
        arguments = {call: text for (_, call), text in read.items() if call is not None}
        return OutputText(
            choice=choice,
            content=read.get(CONTENT, ""),
            reasoning=read.get(REASONING, ""),
            arguments=arguments,
            raw_arguments={
                call: text
                for (_, call), text in written.items()
                if call is not None and text != arguments[call]
            },
            tool_names={item.index: item.name for item in self._items if isinstance(item, ToolCallBegin)},
            num_released_chars=self._num_out_chars,
            is_last=self._is_closed,
        )

    def _held_runs(self) -> dict[TextKey, list[HeldRun]]:
        runs: dict[TextKey, list[HeldRun]] = {}
        for item in self._items:
            if isinstance(item, HeldRun):
                runs.setdefault(item.key, []).append(item)
        return runs

    def _text(self, key: TextKey) -> OutText:
        return self._texts.setdefault(key, OutText())

    # -- out --------------------------------------------------------------------------------------

    def settle(self, verdict: OutputVerdict) -> Released:
        """What goes out by the verdict on what was shown; with a stop, it is the last of the answer."""
        if verdict.stop is StopReason.CONTENT_FILTER:
            return self.drop(verdict.edits)
        if verdict.stop is not None:
            self.close()
        return self.release(verdict.edits)

    def release(self, edits: Sequence[TextEdit] = ()) -> Released:
        """What may go out now: everything where the answer has ended, or else what has enough behind it."""
        cut = self._cut()
        runs = self._held_runs()
        limits = self._limits(cut)
        changes = self._changes(edits, runs, limits)
        passage = Passage(limits, changes)
        rest: list[HeldRun | ToolCallBegin | ToolCallEnd] = []
        for index, item in enumerate(self._items):
            if isinstance(item, HeldRun):
                num_out = len(item) if index < cut[0] else cut[1] if index == cut[0] else 0
                kept = passage.let_out(item, num_out)
                if len(kept):
                    rest.append(kept)
            elif index < cut[0]:
                passage.mark(item)
            else:
                rest.append(item)
        before = self._text(CONTENT).num_gone
        for key, held in runs.items():
            passage.note_out(self._text(key), held, num_context_chars=self._num_context_chars)
        if self._is_closed and CONTENT not in runs and not before:
            # What is put in the place of content that there is none of.
            for change in wanted_changes(edits, CONTENT, (), num_context_chars=0):
                passage.add(CONTENT, change.text)
                self.has_changed = True
        self.has_changed = self.has_changed or bool(changes)
        self._hold(rest)
        deltas = passage.take()
        self._num_out_chars += sum([len(one.text) for one in deltas if isinstance(one, ContentDelta)])
        made = [
            replace(one, start=one.start + before, end=one.end + before) for one in changes.get(CONTENT, ())
        ]
        return Released(deltas, tuple(made), self._text(CONTENT).num_gone)

    def drop(self, edits: Sequence[TextEdit] = ()) -> Released:
        """Nothing of what is held goes out, but what was put in place of a whole text."""
        out = DeltaList()
        runs = self._held_runs()
        for key in (REASONING, CONTENT):
            size = sum([len(run) for run in runs.get(key, ())])
            context = len(self._text(key).context) if size else 0
            for change in wanted_changes(edits, key, runs.get(key, ()), num_context_chars=context):
                if change.start == 0 and change.end == size:
                    out.add_text(key, change.text)
        self._hold([])
        self.has_changed = True
        return Released(out.take(), (), self._text(CONTENT).num_gone)

    def _hold(self, items: list[HeldRun | ToolCallBegin | ToolCallEnd]) -> None:
        self._items = items
        self._num_held_chars = sum([read_size(one.text) for one in items if isinstance(one, HeldRun)])

    def _cut(self) -> tuple[int, int]:
        """Before which item, and within it before which character, the answer is cut."""
        if self._is_closed or not self._held_chars:
            return len(self._items), 0
        missing = self._held_chars
        for index in range(len(self._items) - 1, -1, -1):
            item = self._items[index]
            if isinstance(item, HeldRun):
                place, seen = place_before(item.text, missing)
                if seen >= missing:
                    return index, place
                missing -= seen
        return 0, 0

    def _limits(self, cut: tuple[int, int]) -> dict[TextKey, int]:
        limits: dict[TextKey, int] = {}
        for index, item in enumerate(self._items[: cut[0] + 1]):
            if isinstance(item, HeldRun):
                size = len(item) if index < cut[0] else cut[1]
                limits[item.key] = limits.get(item.key, 0) + size
        return limits

    def _changes(
        self, edits: Sequence[TextEdit], runs: dict[TextKey, list[HeldRun]], limits: dict[TextKey, int]
    ) -> dict[TextKey, list[Change]]:
        """Those whose first character goes out now."""
        changes: dict[TextKey, list[Change]] = {}
        if not edits:
            return changes
        for key, held in runs.items():
            text, limit = self._text(key), limits.get(key, 0)
            wanted = wanted_changes(edits, key, held, num_context_chars=len(text.context))
            wanted = [change for change in wanted if change.start < limit]
            _, call = key
            if wanted and call is not None:
                characters = [character for run in held for character in run.characters]
                is_whole = not text.num_gone and call not in self._readers
                wanted = list(
                    argument_changes(characters, wanted, is_whole=is_whole, is_in_scalar=text.is_in_scalar)
                )
            if wanted:
                changes[key] = wanted
        return changes

    def __repr__(self) -> str:
        return f"<OutputWindow holds {self._num_held_chars} characters in {len(self._items)} items>"
