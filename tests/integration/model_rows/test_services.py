"""Rows of models are written whole, by one at a time, and what is wrong with them is named."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import pytest
from django.db import IntegrityError, connection, transaction

from accounts import services as accounts
from accounts.contracts import Limits
from accounts.models import AdministrativeChange
from inference.domain.adapters import AdapterSettings
from inference.domain.errors import Conflict, InvalidRequest, ModelNotFound
from inference.domain.model_settings import LoadPolicy, ModelAccess, ModelSettings, ModelState, ModelStatus
from inference.domain.speculation import SpeculationMode, SpeculationSettings
from inference.model_rows.columns import settings_of
from inference.model_rows.reports import model_reports_write
from inference.model_rows.selectors import model_names_dangling, model_row_named, model_settings_read
from inference.model_rows.services import (
    model_create,
    model_delete,
    model_row_get,
    model_update,
    model_wants_loaded,
)
from inference.models import ModelAdapter, ModelName, ModelRow
from skippy_site.model_rows import serving_process

pytestmark = pytest.mark.django_db


class TestCreating:
    def test_everything_that_was_said_is_read_again(self, settings_for, gguf) -> None:
        team = accounts.team_create(name="t")
        key, _ = accounts.api_key_create(user=accounts.user_ensure(username="ann"), name="k")
        said = settings_for(
            "org/tiny:8b",
            aliases=("tiny", "gpt-4o"),
            projector_source="hf:org/repo/mmproj.gguf",
            is_default=True,
            load_policy=LoadPolicy.ON_DEMAND,
            idle_unload_s=90.0,
            engine={"lanes": 3, "context": 2048, "gpu_layers": "all", "kv_type_k": "q8_0"},
            admission={"queue": 9, "adaptive_concurrency": True, "adaptive_initial_limit": 2},
            chat_defaults={"temperature": 0.5, "system_prompt": "Be kind."},
            completion_defaults={"stop": ["\n"]},
            has_embeddings=True,
            adapters=(
                AdapterSettings(name="z", source=gguf, scale=-0.5),
                AdapterSettings(name="a", source="hf:org/repo/a.gguf", is_default=True),
            ),
            speculation=SpeculationSettings(
                mode=SpeculationMode.DRAFT_MODEL, max_draft_tokens=4, allows_requests=False, draft_source=gguf
            ),
            access=ModelAccess(is_open=False, team_ids=frozenset({team.pk}), key_ids=frozenset({key.pk})),
        )
        row = model_create(settings=said)
        assert settings_of(row) == replace(said, row_id=row.pk, revision=1)
        assert model_settings_read() == (settings_of(row),)

    def test_rows_come_in_the_order_in_which_they_were_added(self, make) -> None:
        for name in ("c", "a", "b"):
            make(name)
        assert [one.id for one in model_settings_read()] == ["c", "a", "b"]

    def test_a_model_that_is_not_enabled_is_not_read_by_who_serves(self, make) -> None:
        make("off", is_enabled=False)
        make("on")
        assert [one.id for one in model_settings_read()] == ["on"]

    @pytest.mark.parametrize(
        ("members", "param"),
        [
            ({"id": ""}, "model_id"),
            ({"id": "  "}, "model_id"),
            ({"id": " x"}, "model_id"),
            ({"id": "x\n"}, "model_id"),
            ({"id": "x\x00"}, "model_id"),
            ({"id": "x\ud800"}, "model_id"),
            ({"id": "x\u202ey"}, "model_id"),
            ({"id": "x" * 201}, "model_id"),
            ({"id": "x@main"}, "model_id"),
            ({"id": "x@main:8b"}, "model_id"),
            ({"aliases": ("tiny",)}, "aliases"),
            ({"aliases": ("a", "a")}, "aliases"),
            ({"aliases": ("a@main",)}, "aliases"),
            ({"aliases": tuple(f"a{number}" for number in range(33))}, "aliases"),
            ({"source": ""}, "source"),
            ({"source": "/no/such/file.gguf"}, "source"),
            ({"source": "/dev/zero"}, "source"),
            ({"source": "/"}, "source"),
            ({"source": "/etc/passwd"}, "source"),
            ({"source": "x" * 4097}, "source"),
            ({"source": "/a\x00b"}, "source"),
            ({"source": "/a\ud800"}, "source"),
            ({"source": "/" + "x" * 300}, "source"),
            ({"source": "hf:repo"}, "source"),
            ({"source": "hf:org/repo/../file.gguf"}, "source"),
            ({"projector_source": "nothing.gguf"}, "projector_source"),
            ({"idle_unload_s": -1.0}, "idle_unload_s"),
            ({"idle_unload_s": math.nan}, "idle_unload_s"),
            ({"idle_unload_s": math.inf}, "idle_unload_s"),
            ({"engine": {"lanes": 0}}, "engine.lanes"),
            ({"engine": {"lanes": "four"}}, "engine.lanes"),
            ({"engine": {"lanes": True}}, "engine.lanes"),
            ({"engine": {"port": 80}}, "engine.port"),
            ({"engine": {"database_url": "x"}}, "engine.database_url"),
            ({"engine": {"LANES": 1}}, "engine.LANES"),
            ({"engine": {"kv_type_k": "f64"}}, "engine.kv_type_k"),
            ({"engine": {"gpu_layers": "some"}}, "engine.gpu_layers"),
            ({"engine": {"kv_type_v": "q8_0", "flash_attention": "off"}}, "engine.flash_attention"),
            ({"engine": {"a": "\x00"}}, "engine"),
            ({"engine": {"a": math.nan}}, "engine"),
            ({"engine": []}, "engine"),
            ({"engine": {"queue": 1}}, "engine.queue"),
            ({"admission": {"queue": -1}}, "admission.queue"),
            ({"admission": {"queue": True}}, "admission.queue"),
            ({"admission": {"lanes": 1}}, "admission.lanes"),
            ({"admission": {"adaptive_window": 0}}, "admission.adaptive_window"),
            (
                {"engine": {"lanes": 2}, "admission": {"adaptive_initial_limit": 3}},
                "admission.adaptive_initial_limit",
            ),
            ({"admission": {"a": "\x00"}}, "admission"),
            ({"admission": []}, "admission"),
            ({"chat_defaults": {"a": ["\ud800"]}}, "chat_defaults"),
            ({"chat_defaults": {"a\x00": 1}}, "chat_defaults"),
            ({"completion_defaults": {"a": 10**5000}}, "completion_defaults"),
            ({"completion_defaults": {"a": "x" * 1_048_577}}, "completion_defaults"),
            ({"adapters": (AdapterSettings(name="", source="hf:o/r/a.gguf"),)}, "adapters.0.name"),
            ({"adapters": (AdapterSettings(name="a", source="gone"),)}, "adapters.0.source"),
            (
                {"adapters": (AdapterSettings(name="a", source="hf:o/r/a.gguf"),) * 2},
                "adapters.1.name",
            ),
            (
                {"adapters": (AdapterSettings(name="a", source="hf:o/r/a.gguf", scale=math.nan),)},
                "adapters.0.scale",
            ),
            ({"speculation": SpeculationSettings(max_draft_tokens=0)}, "speculation.max_draft_tokens"),
            (
                {"speculation": SpeculationSettings(mode=SpeculationMode.DRAFT_MODEL)},
                "speculation.draft_source",
            ),
            ({"access": ModelAccess(team_ids=frozenset({7}))}, "access.team_ids"),
            ({"access": ModelAccess(key_ids=frozenset({7}))}, "access.key_ids"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_what_is_wrong_is_named_and_nothing_is_written(self, settings_for, members, param) -> None:
        with pytest.raises(InvalidRequest) as refused:
            model_create(settings=settings_for(**members))
        assert refused.value.param == param
        assert len(refused.value.message) < 1000
        assert not ModelRow.objects.exists()

    def test_nested_beyond_measure(self, settings_for) -> None:
        deep: dict[str, object] = {}
        for _ in range(100_000):
            deep = {"a": deep}
        with pytest.raises(InvalidRequest) as refused:
            model_create(settings=settings_for(chat_defaults=deep))
        assert refused.value.param == "chat_defaults"

    def test_a_pipe_is_not_waited_for(self, settings_for, tmp_path) -> None:
        import os

        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(InvalidRequest) as refused:
            model_create(settings=settings_for(source=str(tmp_path / "pipe")))
        assert refused.value.param == "source"


class TestNames:
    def test_ids_and_aliases_are_unique_together(self, make, settings_for) -> None:
        make("a", aliases=("b", "c"))
        for taken, param in (
            (settings_for("b"), "model_id"),
            (settings_for("d", aliases=("a",)), "aliases"),
            (settings_for("d", aliases=("x", "c")), "aliases"),
        ):
            with pytest.raises(Conflict) as refused:
                model_create(settings=taken)
            assert (refused.value.param, refused.value.code) == (param, "conflict")
        assert ModelRow.objects.count() == 1

    def test_a_name_that_was_given_up_is_free(self, make) -> None:
        row = make("a", aliases=("b",))
        model_update(row_id=row.pk, settings=replace(settings_of(row), id="c", aliases=()), is_enabled=True)
        other = make("b", aliases=("a",))
        model_delete(row_id=other.pk)
        make("a")

    def test_an_id_and_its_alias_change_places(self, make) -> None:
        row = make("a", aliases=("b",))
        changed = replace(settings_of(row), id="b", aliases=("a",))
        assert model_update(row_id=row.pk, settings=changed, is_enabled=True).model_id == "b"

    def test_the_database_itself_refuses_a_name_twice_and_one_with_main(self, make) -> None:
        row, other = make("a"), make("b")
        for name in ("a", "x@main", "x@main:y", ""):
            with pytest.raises(IntegrityError), transaction.atomic():
                ModelName.objects.create(name=name, row=other)
        with pytest.raises(IntegrityError), transaction.atomic():
            ModelRow.objects.filter(pk=row.pk).update(model_id="x@main")

    def test_a_model_is_found_as_clients_write_its_names(self, make) -> None:
        row = make("org/a:8b", aliases=("b",))
        for name in ("org/a:8b", "org/a@main:8b", "b", "b@main"):
            assert model_row_named(name) == row
        for name in ("", "c", "org/a", "b@main2", "\x00", "\ud800", "x" * 100_000):
            with pytest.raises(ModelNotFound) as refused:
                model_row_named(name)
            assert len(refused.value.message) < 200

    def test_names_that_no_model_has(self, make, gguf) -> None:
        make("a", aliases=("b",), adapters=(AdapterSettings(name="x", source=gguf),))
        ann = accounts.user_ensure(username="ann")
        accounts.api_key_create(user=ann, name="k", limits=Limits(allowed_models=("a", "c")))
        accounts.team_create(name="t", limits=Limits(allowed_models=("b", "b:x", "b:y", "d")))
        assert model_names_dangling() == ["b:y", "c", "d"]


class TestConstraints:
    @pytest.mark.parametrize(
        "change",
        [
            {"idle_unload_s": -1},
            {"idle_unload_s": math.nan},
            {"load_policy": "never"},
            {"speculation_mode": "x"},
            {"max_draft_tokens": 0},
            {"revision": 0},
            {"source": ""},
            {"engine": []},
            {"admission": []},
            {"chat_defaults": None},
            {"completion_defaults": 1},
        ],
        ids=repr,
    )
    def test_the_database_refuses_what_can_not_be(self, make, change) -> None:
        row = make()
        with pytest.raises(IntegrityError), transaction.atomic():
            ModelRow.objects.filter(pk=row.pk).update(**change)

    @pytest.mark.parametrize("scale", [math.nan, math.inf, -math.inf, 1001.0])
    def test_scales_are_finite(self, make, scale) -> None:
        row = make()
        with pytest.raises(IntegrityError), transaction.atomic():
            ModelAdapter.objects.create(row=row, name="a", source="x", scale=scale)


class TestChanging:
    def test_each_change_makes_a_new_revision_and_no_change_makes_none(self, make, gguf) -> None:
        row = make()
        team = accounts.team_create(name="t")
        settings = settings_of(row)
        adapter = AdapterSettings(name="a", source=gguf)
        steps = [
            replace(settings, id="other"),
            replace(settings, id="other", adapters=(adapter,)),
            replace(settings, id="other", adapters=(replace(adapter, scale=0.5),)),
            replace(settings, id="other", access=ModelAccess(is_open=False, team_ids=frozenset({team.pk}))),
            replace(settings, engine={"lanes": 2}),
        ]
        for revision, step in enumerate(steps, start=2):
            for _ in range(2):
                changed = model_update(row_id=row.pk, settings=step, is_enabled=True)
                assert changed.revision == revision
                assert settings_of(changed) == replace(step, row_id=row.pk, revision=revision)
        assert model_update(row_id=row.pk, settings=steps[-1], is_enabled=False).revision == len(steps) + 2

    def test_a_model_whose_file_is_away_can_still_be_renamed(self, make, gguf) -> None:
        from pathlib import Path

        row = make()
        Path(gguf).unlink()
        renamed = replace(settings_of(row), id="b")
        assert model_update(row_id=row.pk, settings=renamed, is_enabled=True).model_id == "b"
        with pytest.raises(InvalidRequest):
            model_update(row_id=row.pk, settings=replace(renamed, source=gguf + "x"), is_enabled=True)

    def test_one_default_at_most(self, make) -> None:
        first, second = make("a", is_default=True), make("b", is_default=True)
        rows = {row.model_id: row for row in ModelRow.objects.all()}
        assert (rows["a"].is_default, rows["a"].revision) == (False, 2)
        assert rows["b"].is_default
        model_update(row_id=first.pk, settings=replace(settings_of(first), is_default=True), is_enabled=True)
        assert not model_row_get(row_id=second.pk).is_default

    def test_teams_and_keys_may_go(self, make) -> None:
        team = accounts.team_create(name="t")
        key, _ = accounts.api_key_create(user=accounts.user_ensure(username="ann"), name="k")
        access = ModelAccess(is_open=False, team_ids=frozenset({team.pk}), key_ids=frozenset({key.pk}))
        row = make(access=access)
        accounts.team_delete(team=team)
        accounts.api_key_revoke(key=key)
        accounts.api_key_delete(key=key)
        left = settings_of(model_row_get(row_id=row.pk)).access
        assert left == ModelAccess(is_open=False)
        assert not left.allows(team_id=None, key_id=1)

    def test_what_is_gone_is_not_found(self, make) -> None:
        row = make()
        model_delete(row_id=row.pk)
        for call in (
            partial(model_delete, row_id=row.pk),
            partial(model_update, row_id=row.pk, settings=settings_of(row), is_enabled=True),
            partial(model_wants_loaded, row_id=row.pk, wants_loaded=True),
            partial(model_row_get, row_id=row.pk),
        ):
            with pytest.raises(ModelNotFound):
                call()


class TestLoading:
    def test_the_last_word_holds_and_may_be_repeated(self, make) -> None:
        row = make()
        for word, revision in ((True, 2), (True, 2), (False, 3), (False, 3), (None, 4)):
            row = model_wants_loaded(row_id=row.pk, wants_loaded=word)
            assert (row.wants_loaded, row.revision) == (word, revision)

    def test_saying_load_again_tries_again_where_it_failed(self, make) -> None:
        row = model_wants_loaded(row_id=make().pk, wants_loaded=True)
        failed = ModelStatus(row.pk, ModelState.FAILED, 2, "no memory")
        model_reports_write(process=serving_process(), statuses=(failed,))
        assert model_wants_loaded(row_id=row.pk, wants_loaded=True).revision == 3

    def test_what_is_not_enabled_is_not_loaded(self, make) -> None:
        row = make(is_enabled=False)
        with pytest.raises(Conflict):
            model_wants_loaded(row_id=row.pk, wants_loaded=True)
        assert model_wants_loaded(row_id=row.pk, wants_loaded=False).wants_loaded is False

    def test_changing_a_model_leaves_the_last_word(self, make) -> None:
        row = model_wants_loaded(row_id=make().pk, wants_loaded=False)
        changed = replace(settings_of(row), wants_loaded=True, id="b")
        assert model_update(row_id=row.pk, settings=changed, is_enabled=True).wants_loaded is False


class TestHistory:
    def test_each_change_is_in_the_history(self, make, gguf) -> None:
        row = make("a", adapters=(AdapterSettings(name="x", source=gguf),))
        team = accounts.team_create(name="friends")
        changed = replace(
            settings_of(row),
            id="b",
            adapters=(AdapterSettings(name="x", source=gguf, scale=2.0),),
            access=ModelAccess(is_open=False, team_ids=frozenset({team.pk})),
        )
        model_update(row_id=row.pk, settings=changed, is_enabled=True)
        model_wants_loaded(row_id=row.pk, wants_loaded=False)
        model_delete(row_id=row.pk)
        told = [
            (one.action, one.subject_kind, one.subject_label, one.changes)
            for one in AdministrativeChange.objects.filter(subject_kind__startswith="model").order_by("pk")
        ]
        assert [line[:3] for line in told] == [
            ("created", "model", "a"),
            ("created", "model_adapter", "a: x"),
            ("changed", "model", "b"),
            ("changed", "model", "b"),
            ("changed", "model_adapter", "b: x"),
            ("changed", "model", "b"),
            ("deleted", "model_adapter", "b: x"),
            ("deleted", "model", "b"),
        ]
        assert told[2][3] == {"model_id": ["a", "b"], "is_open": [True, False]}
        assert told[3][3] == {"teams": [None, ["friends"]]}
        assert told[4][3] == {"scale": [1.0, 2.0]}
        assert told[5][3] == {"wants_loaded": [None, False]}


@pytest.mark.django_db(transaction=True)
class TestRaces:
    def test_one_of_many_gets_a_name(self, settings_for, in_threads) -> None:
        calls = [partial(model_create, settings=settings_for(f"m{n}", aliases=("same",))) for n in range(6)]
        done = in_threads(*calls)
        assert sum(isinstance(one, ModelRow) for one in done) == 1
        assert sum(isinstance(one, Conflict) for one in done) == 5
        assert ModelName.objects.count() == 2

    def test_no_revision_is_lost_and_one_default_is_left(self, make, in_threads) -> None:
        rows = [make(f"m{number}") for number in range(4)]

        def change(row: ModelRow) -> None:
            for number in range(5):
                settings = settings_of(model_row_get(row_id=row.pk))
                changed = replace(settings, is_default=True, idle_unload_s=float(number + 1))
                model_update(row_id=row.pk, settings=changed, is_enabled=True)

        assert in_threads(*[partial(change, row) for row in rows for _ in range(2)]) == [None] * 8
        assert ModelRow.objects.filter(is_default=True).count() == 1
        assert all(row.revision > 1 for row in ModelRow.objects.all())

    def test_loading_and_unloading_at_once_both_count(self, make, in_threads) -> None:
        row = make()
        words = (True, False) * 4
        done = in_threads(*[partial(model_wants_loaded, row_id=row.pk, wants_loaded=word) for word in words])
        revisions = sorted(one.revision for one in done if isinstance(one, ModelRow))
        assert len(revisions) == 8
        assert model_row_get(row_id=row.pk).revision == revisions[-1]


def test_reading_costs_the_same_however_many_there_are(make, gguf) -> None:
    def number() -> int:
        from django.test.utils import CaptureQueriesContext

        with CaptureQueriesContext(connection) as seen:
            read: tuple[ModelSettings, ...] = model_settings_read()
            assert read
        return len(seen)

    make("m0", adapters=(AdapterSettings(name="x", source=gguf),))
    first = number()
    for index in range(1, 6):
        make(f"m{index}", adapters=(AdapterSettings(name="x", source=gguf),))
    assert number() == first <= 2
