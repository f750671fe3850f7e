"""What a model's row says of its sizes goes before the service's own settings, and by their rules."""

from __future__ import annotations

from typing import Any

import pytest

from inference.domain.model_settings import ModelSettings
from skippy_site.env import Environment
from skippy_site.model_sizes import sizes_of


def settings(**fields: Any) -> ModelSettings:
    return ModelSettings(row_id=1, revision=1, id="m", source="m.gguf", **fields)


def test_a_row_that_says_nothing_has_the_services_own():
    sizes = sizes_of(Environment(lanes=3, queue=5, adaptive_concurrency=True), settings())
    assert (sizes.engine.num_lanes, sizes.max_waiting, sizes.concurrency.is_adaptive) == (3, 5, True)


@pytest.mark.parametrize(("lanes", "queue", "max_waiting"), [(1, 0, 16), (4, 0, 32), (64, 0, 256), (4, 1, 1)])
def test_where_no_queue_is_said_it_follows_from_the_lanes_of_the_model(lanes, queue, max_waiting):
    said = settings(engine={"lanes": lanes}, admission={"queue": queue})
    assert sizes_of(Environment(lanes=2, queue=9), said).max_waiting == max_waiting


def test_each_model_has_its_own_admission():
    environment = Environment(lanes=4, queue=20)
    one = sizes_of(environment, settings(admission={"queue": 2, "adaptive_concurrency": True}))
    other = sizes_of(environment, settings(admission={"adaptive_initial_limit": 3, "adaptive_window": 4}))
    assert (one.max_waiting, one.concurrency.is_adaptive, one.concurrency.initial_limit) == (2, True, None)
    assert (other.max_waiting, other.concurrency.is_adaptive) == (20, False)
    assert (other.concurrency.initial_limit, other.concurrency.window) == (3, 4)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"admission": {"lanes": 2}}, "^lanes: there is no such setting"),
        ({"engine": {"queue": 2}}, "^queue: there is no such setting"),
        ({"admission": {"queue": 10_001}}, "^queue"),
        ({"engine": {"lanes": 2}, "admission": {"adaptive_initial_limit": 3}}, "^adaptive_initial_limit"),
    ],
)
def test_what_cannot_be_names_the_setting_as_rows_call_it(fields, problem):
    with pytest.raises(ValueError, match=problem):
        sizes_of(Environment(), settings(**fields))
