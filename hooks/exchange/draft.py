"""What is to become of a request, or of a generation, if all that is applied is: put together on the side,
one policy after another, so that a policy whose actions fail leaves nothing behind."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hooks.applying import ActionRefused, MaskIncomplete, OutputDraft, apply_to_output, apply_to_request
from hooks.contracts.actions import (
    Action,
    CapsuleMarker,
    InjectText,
    StopGeneration,
    StopReason,
    Tag,
)
from hooks.contracts.points import HookPoint
from hooks.contracts.view import RequestView
from hooks.exchange.capsules import Capsule, capsule_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """`output` is there at OUTPUT. The first reason to stop counts, the last capsule, and of each tag the
    last value."""

    point: HookPoint
    request: RequestView
    output: OutputDraft | None = None
    injections: tuple[InjectText, ...] = ()
    stop: StopReason | None = None
    tags: tuple[tuple[str, str], ...] = ()
    capsule: Capsule | None = None
    unmasked: str = ""
    """Why something that was to be masked is still there."""

    def with_actions(self, actions: tuple[Action, ...]) -> tuple[Draft, tuple[str, ...]]:
        """Those of one policy, and why some of them could not be done. What else a mask raises passes."""
        draft = self
        refusals: list[str] = []
        for action in actions:
            try:
                draft = draft._with(action)
            except ActionRefused as refusal:
                refusals.append(refusal.reason)
            except MaskIncomplete as mask:
                refusals.append(mask.reason)
                draft = replace(draft, request=mask.view, unmasked=mask.reason)
        return draft, tuple(refusals)

    def _with(self, action: Action) -> Draft:
        match action:
            case Tag():
                return replace(self, tags=(*self.tags, (action.name, action.value)))
            case CapsuleMarker():
                return replace(self, capsule=capsule_of(action))
            case StopGeneration():
                return replace(self, stop=self.stop or action.reason)
            case InjectText() if self.point is not HookPoint.BEFORE:
                return replace(self, injections=(*self.injections, action)) if action.text else self
            case _ if self.output is not None:
                output = apply_to_output(self.output, action)
                return self if output is self.output else replace(self, output=output)
            case _ if self.point is HookPoint.BEFORE:
                request = apply_to_request(self.request, action)
                return self if request is self.request else replace(self, request=request)
            case _:
                return self
