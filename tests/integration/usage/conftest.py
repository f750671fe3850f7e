"""Every test of usage begins without records, also those that the last run left."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.usage.records import forget_all


@pytest.fixture(autouse=True)
def empty(transactional_db: None) -> Iterator[None]:
    """Nothing is left for others."""
    forget_all()
    yield
    forget_all()
