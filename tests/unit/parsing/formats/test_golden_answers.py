from __future__ import annotations

import pytest

from tests.golden.answers import SOURCES, Golden, read
from tests.golden.transcripts import GOLDEN

each_golden = pytest.mark.parametrize(
    "golden", GOLDEN, ids=[f"{golden.family}-{index}" for index, golden in enumerate(GOLDEN)]
)


@each_golden
def test_an_answer_read_at_once(golden: Golden) -> None:
    parser = golden.parser()
    golden.check(read(parser, golden.text), has_called=parser.has_called)


@each_golden
def test_an_answer_read_character_by_character(golden: Golden) -> None:
    parser = golden.parser()
    golden.check(read(parser, *golden.text), has_called=parser.has_called)


@each_golden
def test_an_answer_read_in_two_halves_at_every_cut(golden: Golden) -> None:
    for cut in range(1, len(golden.text)):
        parser = golden.parser()
        message = read(parser, golden.text[:cut], golden.text[cut:])
        golden.check(message, has_called=parser.has_called)


def test_every_family_has_its_transcripts() -> None:
    assert set(SOURCES) <= {golden.family for golden in GOLDEN}
