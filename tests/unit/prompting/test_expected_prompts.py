"""Whole prompts of real templates, read once by a person and kept."""

from __future__ import annotations

import pytest

from tests.chat_templates import ALL
from tests.chat_templates.expected_prompts import FOLDER, prompts


@pytest.mark.parametrize("name", ALL)
def test_real_templates_make_the_prompts_that_were_read_and_kept(name: str) -> None:
    assert prompts(name) == (FOLDER / f"{name}.txt").read_text()
