"""Which LoRA adapters a request gets: what it says, over what its model's name says, over the defaults."""

from __future__ import annotations

from collections.abc import Sequence

from inference.domain.adapters import AdapterChoice, AdapterSet, AdapterSettings, AppliedAdapter, adapter_set
from inference.domain.errors import InvalidRequest, PermissionDenied

PARAM = "lora"
MAX_SHOWN_CHARS = 100


def chosen_adapters(
    adapters: Sequence[AdapterSettings],
    asked: Sequence[AdapterChoice] | None,
    *,
    named: str = "",
    may_choose: bool = True,
) -> AdapterSet:
    """The set for a request of a model with these adapters. `named` is the one in the model's name; without
    `may_choose` the caller may use that one as it is, and nothing else of the model.

    What is `asked` replaces the defaults: what is not in it does not apply, but for the one that is named.
    Raises InvalidRequest, which names the field, and PermissionDenied.
    """
    if not adapters and not asked:
        return ()
    if asked is not None and not may_choose:
        raise PermissionDenied(
            "This API key may use this adapter as it is, and its model not otherwise.", param=PARAM
        )
    scales = {one.name: one.scale for one in adapters if one.name == named}
    if asked is None:
        if not named:
            scales = {one.name: one.scale for one in adapters if one.is_default}
    else:
        said: set[str] = set()
        for index, choice in enumerate(asked):
            found = _find(adapters, choice, index)
            if found.name in said:
                raise _invalid(index, f"the adapter '{_shown(found.name)}' is there twice")
            said.add(found.name)
            scales[found.name] = found.scale if choice.scale is None else choice.scale
    return adapter_set([AppliedAdapter(name, scale) for name, scale in scales.items()])


def _find(adapters: Sequence[AdapterSettings], choice: AdapterChoice, index: int) -> AdapterSettings:
    if choice.index is not None:
        if choice.index >= len(adapters):
            raise _invalid(
                index, f"this model has {len(adapters)} adapters, and none with the id {choice.index}"
            )
        return adapters[choice.index]
    for one in adapters:
        if one.name == choice.name:
            return one
    raise _invalid(index, f"this model has no adapter '{_shown(choice.name or '')}'")


def _invalid(index: int, problem: str) -> InvalidRequest:
    param = f"{PARAM}[{index}]"
    return InvalidRequest(f"Invalid '{param}': {problem}.", param=param)


def _shown(name: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in name[:MAX_SHOWN_CHARS])
