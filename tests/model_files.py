"""Where tests find the model files that `make test` has fetched."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[1]


def default_model_path() -> Path:
    """SKIPPY_TEST_MODEL, or the default model in the checkout's own state folder.

    Missing is a failure with a sentence, never a silent skip.
    """
    if given := os.environ.get("SKIPPY_TEST_MODEL"):
        return Path(given)
    found = sorted((ROOT / ".skippy" / "models").glob("*.gguf"))
    assert found, "no model in .skippy/models: run the tests with `make test`, which fetches it"
    return found[0]
