"""How sources are written down, and whether the environment's model is still one of those that there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from skippy_site.model_sources import is_first_model_used, source_path, written_source
from skippy_site.state import StateFolder

STATE = StateFolder(Path("/state"))


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("/state/models/a.gguf", "a.gguf"),
        ("/state/models/hub/x/a.gguf", "hub/x/a.gguf"),
        ("/elsewhere/a.gguf", "/elsewhere/a.gguf"),
        ("hf:org/repo/a.gguf@main", "hf:org/repo/a.gguf@main"),
    ],
)
def test_what_is_written_is_found_again(given: str, written: str) -> None:
    assert written_source(given, STATE) == written
    assert source_path(written, STATE) == (None if given.startswith("hf:") else Path(given))


@pytest.mark.parametrize(
    ("given", "sources", "is_used"),
    [
        ("", (), True),
        ("/a.gguf", (), True),
        ("", ("SmolLM2-135M-Instruct.Q8_0.gguf",), True),
        ("", ("SmolLM2-135M-Instruct.Q4_1.gguf", "/a.gguf"), True),
        ("", ("/a.gguf",), False),
        ("/a.gguf", ("/b.gguf", "/a.gguf"), True),
        ("/a.gguf", ("/b.gguf",), False),
        ("hf:o/r/a.gguf", ("hf:o/r/a.gguf",), True),
        ("hf:o/r/a.gguf", ("a.gguf",), False),
    ],
)
def test_the_environments_model_is_fetched_where_it_is_used(
    given: str, sources: tuple[str, ...], is_used: bool
) -> None:
    assert is_first_model_used(given, sources, STATE) is is_used
