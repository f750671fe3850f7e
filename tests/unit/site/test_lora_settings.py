from __future__ import annotations

import pytest

from inference.domain.adapters import AdapterSettings
from skippy_site.env import EnvironmentProblem, read_environment


@pytest.mark.parametrize(
    ("given", "adapters"),
    [
        ("", []),
        ("polite=/a/b.gguf", [("polite", "/a/b.gguf", 1.0)]),
        (" a = x.gguf:0.5 , b=hf:o/r/f.gguf,", [("a", "x.gguf", 0.5), ("b", "hf:o/r/f.gguf", 1.0)]),
        ("a=hf:o/r/f.gguf:-1e-1", [("a", "hf:o/r/f.gguf", -0.1)]),
        ("a=/x=y/f.gguf:2", [("a", "/x=y/f.gguf", 2.0)]),
    ],
)
def test_adapters_with_their_sources_and_scales(given: str, adapters: list[tuple[str, str, float]]) -> None:
    expected = [AdapterSettings(name=name, source=source, scale=scale) for name, source, scale in adapters]
    assert list(read_environment({"SKIPPY_LORA": given}).adapters) == expected


@pytest.mark.parametrize("given", ["a", "=x.gguf", "a=", "a=x.gguf,a=y.gguf", "a=x:1.2.3", "a=x:1e999"])
def test_what_is_none_is_one_line_at_start(given: str) -> None:
    with pytest.raises(EnvironmentProblem, match="SKIPPY_LORA"):
        read_environment({"SKIPPY_LORA": given})
