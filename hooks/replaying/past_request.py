"""A request that is over: what its record says of it, and its text where that is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from hooks.contracts.points import HookPoint
from hooks.contracts.view import HookCaller, OutputText, RequestView


class RecordPoint(NamedTuple):
    """Behind which record a reading goes on; records are read in this order."""

    created_at: datetime
    record_id: UUID


@dataclass(frozen=True, slots=True, repr=False)
class PastText:
    """What is kept of a request's words. `request` is the view as it was sent, None where that cannot be made
    any more; `request_gap` says why. `output` is the answer as it went out, whole, also that of a stream;
    None where it cannot be told, and `output_gap` says why. Gaps are values of `knowledge.Gap`."""

    request: RequestView | None = None
    request_gap: str = ""
    output: OutputText | None = None
    output_gap: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class PastRequest:
    """`caller` has the names of then, unless `is_erased`. `model` is the id of then. `end_user` and
    `metadata` are None where the record does not have them as they were sent. `outcome_kind` is what policies
    at the end were told. `is_changed`: policies changed the request before it was generated. `unasked` names
    the points at which no policy was asked about it, each with why. `text` is None where none is kept, or
    where who asks may not see it (`is_text_closed`)."""

    record_id: UUID
    created_at: datetime
    caller: HookCaller
    model: str
    endpoint: str
    is_stream: bool
    end_user: str | None
    metadata: Mapping[str, str] | None
    outcome_kind: str
    outcome_status: int
    has_thinking: bool = False
    is_erased: bool = False
    is_changed: bool = False
    is_text_closed: bool = False
    unasked: Mapping[HookPoint, str] = field(default_factory=dict)
    text: PastText | None = None

    @property
    def place(self) -> RecordPoint:
        return RecordPoint(self.created_at, self.record_id)

    def __repr__(self) -> str:
        return f"<PastRequest {self.record_id}>"
