"""What the process that serves reads and writes, and the one first row."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path

import pytest
from django.db import connection
from django.db.models.functions import Now

from inference.domain.adapters import AdapterSettings
from inference.domain.errors import InvalidRequest, ServiceUnavailable
from inference.domain.model_settings import LoadPolicy, ModelState, ModelStatus
from inference.domain.speculation import SpeculationMode, SpeculationSettings
from inference.model_rows.first_row import FirstModel, model_row_ensure
from inference.model_rows.reports import FORGET_AFTER_S, model_reports_write
from inference.model_rows.selectors import STALE_AFTER_S, model_reports_fresh
from inference.model_rows.services import model_delete, model_row_get
from inference.model_rows.store import PostgresModelStore
from inference.models import ModelReport, ModelRow
from skippy_site.env import EnvironmentProblem, read_environment
from skippy_site.model_rows import first_model, serving_process
from skippy_site.model_sources import source_path
from skippy_site.state import StateFolder
from tests.integration.model_rows.conftest import GGUF_HEAD

pytestmark = pytest.mark.django_db(transaction=True)


def said() -> list[tuple[int, str]]:
    return [(report.row_id, report.state) for report in model_reports_fresh().order_by("row_id")]


class TestFirstRow:
    def test_it_is_made_of_what_the_environment_says(self, gguf) -> None:
        row = model_row_ensure(first=FirstModel("tiny", gguf, projector_source="hf:o/r/mmproj.gguf"))
        assert row is not None
        assert (row.model_id, row.source, row.projector_source) == ("tiny", gguf, "hf:o/r/mmproj.gguf")
        assert (row.is_default, row.has_embeddings, row.load_policy) == (True, True, LoadPolicy.ALWAYS.value)

    def test_its_adapters_are_rows_too(self, gguf) -> None:
        adapters = (AdapterSettings(name="a", source=gguf, scale=0.5),)
        row = model_row_ensure(first=FirstModel("tiny", gguf, adapters=adapters))
        assert row is not None
        assert [(one.name, one.scale) for one in row.adapters.all()] == [("a", 0.5)]

    def test_it_is_made_once_by_however_many(self, gguf, in_threads) -> None:
        made = in_threads(*[partial(model_row_ensure, first=FirstModel("tiny", gguf))] * 8)
        assert sum(isinstance(one, ModelRow) for one in made) == 1
        assert made.count(None) == 7
        assert ModelRow.objects.count() == 1

    def test_later_the_rows_hold_and_a_difference_is_told_once(self, make, gguf, tmp_path, caplog) -> None:
        make("a")
        other = tmp_path / "other.gguf"
        other.write_bytes(GGUF_HEAD)
        with caplog.at_level(logging.INFO, logger="inference.model_rows"):
            assert model_row_ensure(first=FirstModel("tiny", gguf)) is None
            assert model_row_ensure(first=FirstModel("other", str(other), is_named=False)) is None
            assert not caplog.records
            assert model_row_ensure(first=FirstModel("other", str(other))) is None
        assert [record.levelname for record in caplog.records] == ["INFO"]
        assert "SKIPPY_MODEL" in caplog.text
        assert ModelRow.objects.get().model_id == "a"

    @pytest.mark.parametrize(
        ("id", "usable"),
        [("a@main", "a"), ("a\nb", "a?b"), ("x" * 300, "x" * 200), (" ", "model"), ("@main", "model")],
    )
    def test_whatever_the_file_is_called(self, gguf, id, usable) -> None:
        row = model_row_ensure(first=FirstModel(id, gguf))
        assert row is not None
        assert row.model_id == usable


class TestFromTheEnvironment:
    def first(self, state: StateFolder, found: dict[str, str], **variables: str) -> FirstModel | None:
        environment = read_environment({f"SKIPPY_{name}": value for name, value in variables.items()})
        return first_model(environment, state, found)

    def test_a_path_a_hub_name_and_the_default(self, tmp_path) -> None:
        state = StateFolder(tmp_path)
        path = {"SKIPPY_MODEL_PATH": "/models/Tiny-1B.Q8_0.gguf"}
        assert self.first(state, path, MODEL="/models/Tiny-1B.Q8_0.gguf") == FirstModel(
            "Tiny-1B", "/models/Tiny-1B.Q8_0.gguf"
        )
        hub = {"SKIPPY_MODEL_PATH": str(state.models / "hub" / "Tiny.gguf")}
        assert self.first(state, hub, MODEL="hf:o/r/Tiny.gguf", MODEL_ID="t") == FirstModel(
            "t", "hf:o/r/Tiny.gguf"
        )
        default = {"SKIPPY_MODEL_PATH": str(state.models / "SmolLM2.Q8_0.gguf")}
        assert self.first(state, default) == FirstModel("SmolLM2", "SmolLM2.Q8_0.gguf", is_named=False)
        assert self.first(state, {}) is None

    def test_how_it_is_drafted(self, tmp_path) -> None:
        state = StateFolder(tmp_path)
        found = {"SKIPPY_MODEL_PATH": "/m.gguf"}
        given = {"SPECULATION": "draft_model", "DRAFT_MODEL": str(state.models / "small.gguf")}
        limits = {"MAX_DRAFT_TOKENS": "3", "SPECULATION_BY_REQUEST": "no"}
        first = self.first(state, found, MODEL="/m.gguf", **given, **limits)
        assert first is not None
        assert first.speculation == SpeculationSettings(
            mode=SpeculationMode.DRAFT_MODEL,
            max_draft_tokens=3,
            allows_requests=False,
            draft_source="small.gguf",
        )
        plain = self.first(state, found, MODEL="/m.gguf")
        assert plain is not None
        assert plain.speculation == SpeculationSettings()
        with pytest.raises(EnvironmentProblem, match="SKIPPY_SPECULATION: draft_model needs one"):
            read_environment({"SKIPPY_SPECULATION": "draft_model"})

    def test_its_projector(self, tmp_path) -> None:
        found = {"SKIPPY_MODEL_PATH": "/m.gguf", "SKIPPY_MMPROJ_PATH": "/hub/p.gguf"}
        first = self.first(StateFolder(tmp_path), found, MODEL="/m.gguf", MMPROJ="hf:o/r/p.gguf")
        assert first is not None
        assert first.projector_source == "hf:o/r/p.gguf"

    def test_its_adapters(self, tmp_path) -> None:
        state = StateFolder(tmp_path)
        lora = f"a={state.models}/a.gguf:0.5,b=hf:o/r/b.gguf"
        first = self.first(state, {"SKIPPY_MODEL_PATH": "/m.gguf"}, LORA=lora)
        assert first is not None
        assert first.adapters == (
            AdapterSettings(name="a", source="a.gguf", scale=0.5),
            AdapterSettings(name="b", source="hf:o/r/b.gguf"),
        )

    def test_a_source_in_the_models_folder_moves_with_it(self, tmp_path) -> None:
        first = self.first(StateFolder(tmp_path / "a"), {"SKIPPY_MODEL_PATH": f"{tmp_path}/a/models/m.gguf"})
        assert first is not None
        assert source_path(first.source, StateFolder(tmp_path / "b")) == tmp_path / "b" / "models" / "m.gguf"
        assert source_path("/x/m.gguf", StateFolder(tmp_path)) == Path("/x/m.gguf")
        assert source_path("hf:o/r/m.gguf", StateFolder(tmp_path)) is None


class TestStore:
    async def test_the_first_reading_makes_the_first_row_and_later_ones_do_not(self, gguf) -> None:
        store = PostgresModelStore(serving_process(), first=FirstModel("tiny", gguf))
        (only,) = await store.settings()
        assert (only.id, only.source, only.revision) == ("tiny", gguf, 1)
        assert store.has_made_first
        later = PostgresModelStore(serving_process(), first=FirstModel("tiny", gguf))
        assert await later.settings() == (only,)
        assert not later.has_made_first
        await ModelRow.objects.all().adelete()
        assert await store.settings() == ()

    @pytest.mark.parametrize(
        ("fields", "param"),
        [
            ({"adapters": (AdapterSettings(name="a", source="/nowhere/a.gguf"),)}, "adapters.0.source"),
            (
                {"adapters": (AdapterSettings(name="a", source="hf:o/r/a.gguf", scale=1e9),)},
                "adapters.0.scale",
            ),
            (
                {"speculation": SpeculationSettings(draft_source="/nowhere/d.gguf")},
                "speculation.draft_source",
            ),
            ({"projector_source": "/nowhere/p.gguf"}, "projector_source"),
        ],
        ids=lambda one: one if isinstance(one, str) else "",
    )
    async def test_what_no_first_row_can_be_made_of_is_told_in_words(self, gguf, fields, param) -> None:
        store = PostgresModelStore(serving_process(), first=FirstModel("tiny", gguf, **fields))
        for _ in range(2):  # it is asked again and again
            with pytest.raises(InvalidRequest, match="what the environment says") as caught:
                await store.settings()
            assert caught.value.param == param
        assert not store.has_made_first
        assert not await ModelRow.objects.aexists()

    async def test_what_is_reported_is_read_and_replaced(self, make, in_threads) -> None:
        rows = [
            one for one in in_threads(partial(make, "a"), partial(make, "b")) if isinstance(one, ModelRow)
        ]
        a, b = sorted(row.pk for row in rows)
        store, other = PostgresModelStore(serving_process()), PostgresModelStore(serving_process())
        await store.report(
            (ModelStatus(b, ModelState.LOADING), ModelStatus(a, ModelState.READY, 3, "", 2, 9))
        )
        await other.report((ModelStatus(a, ModelState.FAILED, 3, "no\0memory"),))
        assert in_threads(said)[0] == [(a, "ready"), (a, "failed"), (b, "loading")] or in_threads(said)[
            0
        ] == [
            (a, "failed"),
            (a, "ready"),
            (b, "loading"),
        ]
        await store.report((ModelStatus(a, ModelState.DRAINING, 4, "", 1, 9),))
        await other.close()
        assert in_threads(said)[0] == [(a, "draining")]
        report = await ModelReport.objects.aget()
        assert (report.revision, report.num_running, report.memory_bytes) == (4, 1, 9)
        await store.report(())
        assert in_threads(said)[0] == []

    async def test_a_model_that_was_deleted_meanwhile_can_still_be_told_of(self, make, in_threads) -> None:
        (row,) = in_threads(make)
        assert isinstance(row, ModelRow)
        in_threads(partial(model_delete, row_id=row.pk))
        store = PostgresModelStore(serving_process())
        await store.report((ModelStatus(row.pk, ModelState.DRAINING),))
        await store.report(())

    async def test_a_database_that_is_away_is_one_kind_of_failure(self, monkeypatch) -> None:
        monkeypatch.setitem(connection.settings_dict, "HOST", "/nowhere")
        with pytest.raises(ServiceUnavailable):
            await PostgresModelStore(serving_process()).settings()


class TestAge:
    def test_what_is_old_is_passed_over_and_then_forgotten(self, make) -> None:
        from datetime import timedelta

        row = make()
        dead, alive = serving_process(), serving_process()
        model_reports_write(process=dead, statuses=(ModelStatus(row.pk, ModelState.READY),))
        ModelReport.objects.update(seen_at=Now() - timedelta(seconds=STALE_AFTER_S + 1))
        assert said() == []
        assert model_row_get(row_id=row.pk).fresh_reports == []
        model_reports_write(process=alive, statuses=(ModelStatus(row.pk, ModelState.LOADING),))
        assert ModelReport.objects.count() == 2
        ModelReport.objects.filter(process_id=dead.id).update(
            seen_at=Now() - timedelta(seconds=FORGET_AFTER_S + 1)
        )
        model_reports_write(process=alive, statuses=(ModelStatus(row.pk, ModelState.READY),))
        assert said() == [(row.pk, "ready")]
        assert ModelReport.objects.count() == 1
