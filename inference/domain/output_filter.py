"""What may look at an answer's text, and change it, between its generation and its client.

A policy that is to catch a word must see it before it is gone, and a word may be cut anywhere. So who
filters may keep parts back, give out others instead, and say that the answer ends here. It sees an answer
as its renderings do: content, thinking and calls in their order, whole characters, no markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from inference.domain.events import FinishReason
from inference.domain.message_deltas import AnswerPart


class OutputFilter(Protocol):
    """Of one choice; event loop only, one call at a time. `feed` for each part as it comes, then `finish`
    once where the answer has come to its end. While it thinks, nothing more of its choice is read.

    What both return is released in that order; all of it together is one answer: calls begin, have their
    arguments and end as they do without a filter. Once `end` is set (looked at behind each call), the
    choice ends with what was just returned and nothing is called any more. Both raise SkippyError where
    the request is to fail instead.
    """

    @property
    def end(self) -> FinishReason | None:
        """Why the answer ends here, None while it goes on. Behind `finish` it takes the place of the
        reason that the generation ended with."""
        ...

    async def feed(self, part: AnswerPart) -> Sequence[AnswerPart]: ...

    async def finish(self) -> Sequence[AnswerPart]: ...
