"""The rows as the process that serves them sees them."""

from __future__ import annotations

from functools import partial

from inference.domain.errors import InvalidRequest
from inference.domain.model_settings import ModelSettings, ModelStatus
from inference.ledger.database_calls import in_database
from inference.model_rows.first_row import FirstModel, model_row_ensure
from inference.model_rows.reports import ServingProcess, model_reports_end, model_reports_write
from inference.model_rows.selectors import model_settings_read
from inference.models import ModelRow


class PostgresModelStore:
    """Implements inference.domain.model_settings.ModelStore, for one process. The first reading makes
    the first row, where there is none; what that cannot be made of is InvalidRequest, in the operator's
    words."""

    def __init__(self, process: ServingProcess, *, first: FirstModel | None = None) -> None:
        self._process = process
        self._first = first
        self.has_made_first = False
        """Before this start there was no model."""

    def __repr__(self) -> str:
        return f"<PostgresModelStore of {self._process.name}>"

    async def settings(self) -> tuple[ModelSettings, ...]:
        if self._first is not None:
            made = await in_database(partial(_first_ensure, self._first))
            self.has_made_first = made is not None
            self._first = None
        return await in_database(model_settings_read)

    async def report(self, statuses: tuple[ModelStatus, ...]) -> None:
        await in_database(partial(model_reports_write, process=self._process, statuses=statuses))

    async def close(self) -> None:
        """The process ends: what it has said does not hold any more."""
        await in_database(partial(model_reports_end, process=self._process))


def _first_ensure(first: FirstModel) -> ModelRow | None:
    """Raises InvalidRequest in words for the operator, who wrote no request."""
    try:
        return model_row_ensure(first=first)
    except InvalidRequest as problem:
        raise InvalidRequest(
            f"The first model cannot be what the environment says. {problem.message}", param=problem.param
        ) from None
