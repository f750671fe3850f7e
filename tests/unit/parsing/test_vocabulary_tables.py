from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from inference.domain.tokenizer import Tokenizer
from inference.parsing.visible_pieces import visible_pieces
from inference.parsing.vocabulary_tables import MAX_KEPT, kept_with_tokenizer
from tests.scripted_engine import ByteTokenizer


class Tables:
    """Counts how often one is made."""

    def __init__(self) -> None:
        self.num_made = 0
        self.find = kept_with_tokenizer(self._make)

    def _make(self, tokenizer: Tokenizer, name: str = "") -> list[str]:
        self.num_made += 1
        return [name]


@pytest.fixture
def _no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def test_a_table_is_made_once_for_each_tokenizer_and_argument() -> None:
    tables, one, other = Tables(), ByteTokenizer(), ByteTokenizer()
    made = [tables.find(one, "a"), tables.find(one, "b"), tables.find(other, "a")]
    assert [tables.find(one, "a"), tables.find(one, "b"), tables.find(other, "a")] == made
    assert tables.find(one, "a") is made[0]
    assert tables.num_made == 3


def test_an_argument_by_name_counts() -> None:
    tables, tokenizer = Tables(), ByteTokenizer()
    assert tables.find(tokenizer, name="a") == ["a"]
    assert tables.find(tokenizer, name="b") == ["b"]


def test_not_more_are_kept_than_may_be() -> None:
    tables, tokenizer = Tables(), ByteTokenizer()
    for number in range(10 * MAX_KEPT):
        tables.find(tokenizer, str(number))
    assert tables.find(tokenizer, "0") == ["0"]
    assert tables.num_made == 10 * MAX_KEPT + 1


@pytest.mark.usefixtures("_no_collector")
def test_the_tables_of_a_model_go_with_it() -> None:
    tokenizer = ByteTokenizer()
    text = next(iter(tokenizer.control_texts.values()))
    assert text.encode() in visible_pieces(tokenizer, (text,))
    is_there = weakref.ref(tokenizer)
    del tokenizer
    assert is_there() is None
