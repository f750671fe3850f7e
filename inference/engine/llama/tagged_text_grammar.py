"""Free text with tags in it (tool calls, for one) as a grammar in Lark's notation.

Text runs up to a trigger, at which a lexeme that is `lazy` (or the trigger's own control token) ends it
whatever else it could have become: from there on only a tag can follow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

from llguidance import regex_to_lark

from inference.domain.constraint import ConstraintRefused, ConstraintSpec, Regex, Tag, TaggedText
from inference.engine.llama.constraint_bounds import MAX_TAGS, check_regex

_ANY_TEXT = "/(?s:.*)/"


class TaggedTextRules:
    """The rules of one TaggedText. `add_body` makes a grammar of its own of a tag's body and returns its
    name."""

    def __init__(
        self,
        control_tokens: Mapping[str, int],
        end_token_ids: frozenset[int],
        *,
        add_body: Callable[[ConstraintSpec], str],
    ) -> None:
        self._control_tokens = control_tokens
        self._end_token_ids = end_token_ids
        self._add_body = add_body
        texts = sorted(filter(None, control_tokens), key=len, reverse=True)
        self._controls = re.compile("|".join(map(re.escape, texts))) if texts else None
        self._rules: list[str] = []

    def write(self, spec: TaggedText) -> str:
        """Raises ConstraintRefused for what is empty or cannot be said."""
        if not spec.tags:
            raise ConstraintRefused("There are no tags.")
        if len(spec.tags) > MAX_TAGS:
            raise ConstraintRefused(f"There are more than {MAX_TAGS} tags.")
        if spec.max_tags is not None and spec.max_tags < max(spec.min_tags, 1):
            raise ConstraintRefused("It must allow at least one tag, and as many as it asks for.")
        start = self._free_text(spec) if spec.has_free_text else self._tags_alone(spec)
        return "\n".join([f"start: {start}", *self._rules])

    def _tags_alone(self, spec: TaggedText) -> str:
        tags = [self._tag(tag, tag.begin) for tag in spec.tags]
        self._rules.append(f"tag: {' | '.join(tags)}")
        whole = f"{self._fixed(spec.prefix)} {self._chain('tag', 'tag', spec)} {self._fixed(spec.suffix)}"
        return whole if spec.min_tags else f"({whole})?"

    def _free_text(self, spec: TaggedText) -> str:
        if spec.prefix or spec.suffix:
            raise ConstraintRefused("With free text there can be no prefix and no suffix.")
        for tag in spec.tags:
            if not any(tag.begin.startswith(trigger) for trigger in spec.triggers if trigger):
                raise ConstraintRefused("A tag begins with none of the triggers.")
        controls: set[int] = set()
        after_text: list[str] = []
        at_once: list[str] = []
        for index, trigger in enumerate(spec.triggers):
            tags = [tag for tag in spec.tags if self._trigger(tag, spec) == trigger]
            if not tags:
                continue
            rest = " | ".join(self._tag(tag, tag.begin[len(trigger) :]) for tag in tags)
            self._rules.append(f"tagged{index}: {rest}")
            pieces = self._pieces(trigger)
            if isinstance(pieces[0], int):
                controls.add(pieces[0])
                after_text.append(f"TEXT {self._fixed(trigger)} tagged{index}")
            elif len(pieces) == 1:
                self._rules.append(f"trigger{index}[lazy]: TEXT {json.dumps(trigger)}")
                after_text.append(f"trigger{index} tagged{index}")
            else:
                raise ConstraintRefused("A trigger must be text, or begin with a control token.")
            at_once.append(f"{self._fixed(trigger)} tagged{index}")
        # Other control tokens (those around thinking, say) may stand in text as they always may.
        allowed = set(self._control_tokens.values()) - self._end_token_ids - controls
        before = f"(TEXT <[{_ranges(allowed)}]>)*" if allowed else ""
        self._rules += [
            f"TEXT: {_ANY_TEXT}",
            f"rest: {before} TEXT",
            f"first: {' | '.join(f'{before} {tag}' for tag in after_text)}",
        ]
        if spec.has_later_text:
            return self._with_later_text(spec)
        self._rules.append(f"next: {' | '.join(at_once)}")
        chain = self._chain("first", "next", spec)
        return chain if spec.min_tags else f"{chain} | rest"

    def _with_later_text(self, spec: TaggedText) -> str:
        """Where no tag is left to come, text could hold a trigger: nothing follows the last of `max_tags`."""
        if spec.max_tags is None:
            return f"first{{{spec.min_tags},}} rest"
        last = " ".join(["first"] * spec.max_tags) if spec.max_tags < 3 else f"first{{{spec.max_tags}}}"
        if spec.min_tags == spec.max_tags:
            return last
        if spec.max_tags == 1:
            return f"rest | {last}"
        return f"first{{{spec.min_tags},{spec.max_tags - 1}}} rest | {last}"

    def _chain(self, first: str, following: str, spec: TaggedText) -> str:
        if spec.max_tags == 1:
            return first
        at_least = max(spec.min_tags, 1) - 1
        at_most = "" if spec.max_tags is None else str(spec.max_tags - 1)
        return f"{first} ({self._fixed(spec.separator)} {following}){{{at_least},{at_most}}}"

    def _trigger(self, tag: Tag, spec: TaggedText) -> str:
        """The longest of the triggers that it begins with."""
        return max((one for one in spec.triggers if one and tag.begin.startswith(one)), key=len)

    def _tag(self, tag: Tag, begin: str) -> str:
        """A tag of which `begin` is still to come, as a sequence."""
        end = self._pieces(tag.end)
        if isinstance(tag.body, Regex):
            check_regex(tag.body.pattern)
            body = f"body{len(self._rules)}"
            pattern = between_slashes(tag.body.pattern)
            # Text that would match what ends it, too, ends at the first of those.
            attributes = ""
            if end and isinstance(end[0], str):
                attributes = f"[suffix={json.dumps(end.pop(0))}]"
            self._rules.append(f"{body}{attributes}: {pattern}")
        else:
            body = f"@{self._add_body(tag.body)}"
        return f"{self._fixed(begin)} {body} {self._written(end)}"

    def _fixed(self, text: str) -> str:
        return self._written(self._pieces(text))

    def _pieces(self, text: str) -> list[str | int]:
        """Text and control tokens, by turns; an end of the answer's own is left to the model."""
        pieces: list[str | int] = []
        begin = 0
        for match in self._controls.finditer(text) if self._controls else ():
            pieces += [text[begin : match.start()], self._control_tokens[match.group()]]
            begin = match.end()
        pieces.append(text[begin:])
        pieces = [piece for piece in pieces if piece != ""]
        if pieces and pieces[-1] in self._end_token_ids:
            pieces.pop()
        if not self._end_token_ids.isdisjoint(piece for piece in pieces if isinstance(piece, int)):
            raise ConstraintRefused("A token that ends the answer stands in the middle of it.")
        return pieces

    def _written(self, pieces: list[str | int]) -> str:
        return " ".join(f"<[{one}]>" if isinstance(one, int) else json.dumps(one) for one in pieces)


def between_slashes(pattern: str) -> str:
    """A regular expression as Lark writes it. Its digits are those of ASCII: nobody means others."""
    return f"/{regex_to_lark(pattern, 'd')}/".replace("\n", "\\n")


def _ranges(token_ids: set[int]) -> str:
    """ "3-5,9": what stands between `<[` and `]>`."""
    runs: list[list[int]] = []
    for token_id in sorted(token_ids):
        if runs and token_id == runs[-1][1] + 1:
            runs[-1][1] = token_id
        else:
            runs.append([token_id, token_id])
    return ",".join(f"{begin}-{end}" if begin < end else str(begin) for begin, end in runs)
