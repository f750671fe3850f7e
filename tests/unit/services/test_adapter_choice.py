from __future__ import annotations

import pytest

from inference.domain.adapters import AdapterChoice, AdapterSettings, AppliedAdapter
from inference.domain.errors import InvalidRequest, PermissionDenied
from inference.services.adapter_choice import chosen_adapters

A = AdapterSettings(name="a", source="a.gguf", scale=0.5)
B = AdapterSettings(name="b", source="b.gguf", is_default=True)
C = AdapterSettings(name="c", source="c.gguf", scale=0.0, is_default=True)
ALL = (A, B, C)


def names(
    *choices: str | int | tuple[str | int, float], named: str = "", says: bool = True
) -> list[tuple[str, float]]:
    asked = []
    for choice in choices:
        who, scale = choice if isinstance(choice, tuple) else (choice, None)
        is_name = isinstance(who, str)
        asked.append(AdapterChoice(who if is_name else None, None if is_name else who, scale))  # type: ignore[arg-type]
    chosen = chosen_adapters(ALL, asked if says else None, named=named)
    return [(one.name, one.scale) for one in chosen]


def test_defaults_apply_where_nothing_is_said_and_scale_0_is_none() -> None:
    assert names(says=False) == [("b", 1.0)]
    assert names() == []
    assert chosen_adapters((), None) == ()


def test_what_is_said_replaces_the_defaults() -> None:
    assert names("a") == [("a", 0.5)]
    assert names(1, ("a", 2.0)) == [("a", 2.0), ("b", 1.0)]
    assert names(("b", 0.0)) == []


def test_the_one_in_the_models_name_applies_and_its_scale_may_be_said() -> None:
    assert names(named="a", says=False) == [("a", 0.5)]
    assert names("b", named="a") == [("a", 0.5), ("b", 1.0)]
    assert names(("a", 3.0), named="a") == [("a", 3.0)]


@pytest.mark.parametrize(
    ("choice", "param"),
    [("d", "lora[1]"), (3, "lora[1]"), ("a", "lora[1]"), (0, "lora[1]"), ("A", "lora[1]")],
)
def test_what_is_not_there_or_there_twice_is_named(choice: str | int, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        names("a", choice)
    assert refused.value.param == param


def test_a_model_without_adapters_has_none_to_be_asked_for() -> None:
    with pytest.raises(InvalidRequest):
        chosen_adapters((), [AdapterChoice("a")])
    assert chosen_adapters((), []) == ()


def test_who_may_use_one_adapter_only_gets_that_one_as_it_is() -> None:
    assert chosen_adapters(ALL, None, named="a", may_choose=False) == (AppliedAdapter("a", 0.5),)
    for asked in ([], [AdapterChoice("a", scale=0.0)], [AdapterChoice("b")]):
        with pytest.raises(PermissionDenied):
            chosen_adapters(ALL, asked, named="a", may_choose=False)
