"""The commands that scripts use: one JSON object, one sentence on failure, and waiting for what was asked."""

from __future__ import annotations

import json
import threading
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from accounts import services as accounts
from accounts.contracts import Limits
from inference.domain.model_settings import ModelState, ModelStatus
from inference.model_rows.reports import model_reports_write
from inference.models import ModelRow
from skippy_site.model_rows import serving_process

pytestmark = pytest.mark.django_db


def output_of(*arguments: str) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out, stderr=StringIO())
    return out.getvalue()


def json_of(*arguments: str) -> dict:
    return json.loads(output_of(*arguments, "--json"))


def problem_of(*arguments: str) -> str:
    with pytest.raises(CommandError) as problem:
        output_of(*arguments)
    assert "\n" not in str(problem.value)
    return str(problem.value)


class TestAdding:
    def test_with_all_its_settings(self, gguf, tmp_path) -> None:
        team = accounts.team_create(name="friends")
        key, _ = accounts.api_key_create(user=accounts.user_ensure(username="ann"), name="k")
        defaults = tmp_path / "defaults.json"
        defaults.write_text('{"system_prompt": "Be kind."}')
        shown = json_of(
            "model_add",
            "org/tiny",
            gguf,
            "--alias=tiny",
            "--alias=gpt-4o",
            "--projector=hf:o/r/p.gguf",
            "--default",
            "--policy=on_demand",
            "--idle-unload-s=60",
            "--engine=lanes=2",
            "--engine=gpu_layers=all",
            "--engine=prefix_cache=false",
            "--admission=queue=7",
            "--admission=adaptive_concurrency=true",
            f"--chat-defaults=@{defaults}",
            '--completion-defaults={"max_tokens": 9}',
            "--embeddings",
            "--speculation=prompt_lookup",
            "--max-draft-tokens=4",
            f"--adapter=x={gguf}",
            "--adapter-scale=x=0.5",
            "--default-adapter=x",
            "--no-open",
            "--allow-team=friends",
            f"--allow-key={key.pk}",
            "--load",
        )
        assert shown == {
            "id": ModelRow.objects.get().pk,
            "model_id": "org/tiny",
            "aliases": ["tiny", "gpt-4o"],
            "source": gguf,
            "projector_source": "hf:o/r/p.gguf",
            "is_enabled": True,
            "is_default": True,
            "load_policy": "on_demand",
            "wants_loaded": True,
            "idle_unload_s": 60.0,
            "engine": {"lanes": 2, "gpu_layers": "all", "prefix_cache": False},
            "admission": {"queue": 7, "adaptive_concurrency": True},
            "chat_defaults": {"system_prompt": "Be kind."},
            "completion_defaults": {"max_tokens": 9},
            "has_embeddings": True,
            "speculation": {
                "mode": "prompt_lookup",
                "max_draft_tokens": 4,
                "allows_requests": True,
                "draft_source": "",
            },
            "adapters": [{"name": "x", "source": gguf, "scale": 0.5, "is_default": True}],
            "access": {"is_open": False, "team_ids": [team.pk], "key_ids": [key.pk]},
            "revision": 2,
            "status": [],
        }

    def test_a_path_is_one_from_where_the_command_is_run(self, gguf, monkeypatch) -> None:
        monkeypatch.chdir(Path(gguf).parent)
        assert json_of("model_add", "a", Path(gguf).name)["source"] == gguf

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (("a", "/nothing"), "source"),
            (("a@main", "hf:o/r/f.gguf"), "model_id"),
            (("a", "hf:o"), "source"),
            (("a", "hf:o/r/f.gguf", "--engine=lanes=0"), "engine.lanes"),
            (("a", "hf:o/r/f.gguf", "--engine=lanes"), "NAME=VALUE"),
            (("a", "hf:o/r/f.gguf", "--chat-defaults=[]"), "JSON object"),
            (("a", "hf:o/r/f.gguf", "--chat-defaults=@/nothing"), "/nothing"),
            (("a", "hf:o/r/f.gguf", '--chat-defaults={"n": 2}'), "chat_defaults.n"),
            (("a", "hf:o/r/f.gguf", "--adapter-scale=x=1"), "'x'"),
            (
                ("a", "hf:o/r/f.gguf", "--adapter=x=hf:o/r/a.gguf", "--adapter-scale=x=nan"),
                "adapters.0.scale",
            ),
            (("a", "hf:o/r/f.gguf", "--allow-team=none"), "'none'"),
            (("a", "hf:o/r/f.gguf", "--allow-key=77"), "no such key"),
            (("a", "x" * 5000), "source"),
        ],
        ids=lambda value: str(value)[:50],
    )
    def test_what_is_wrong_is_one_sentence(self, arguments, said) -> None:
        assert said in problem_of("model_add", *arguments)
        assert not ModelRow.objects.exists()


class TestChanging:
    def test_what_is_not_given_stays(self, make, gguf) -> None:
        make("a", engine={"lanes": 2, "context": 512})
        changed = json_of("model_set", "a", "--id=b", "--alias=a", "--engine=lanes=3", "--engine=context=")
        assert (changed["model_id"], changed["aliases"], changed["engine"]) == ("b", ["a"], {"lanes": 3})
        assert changed["source"] == gguf
        assert json_of("model_set", "a", "--alias=none", f"--adapter=x={gguf}")["aliases"] == []
        assert json_of("model_set", "b", "--remove-adapter=x", "--loaded=no")["adapters"] == []
        assert json_of("model_set", "b", "--loaded=policy", "--no-enabled")["wants_loaded"] is None
        assert not ModelRow.objects.get().is_enabled

    def test_a_name_that_no_model_has(self, make) -> None:
        make("a")
        for command in ("model_set", "model_load", "model_unload", "model_remove", "model_status"):
            assert "no model 'b'" in problem_of(command, "b")

    def test_removed(self, make) -> None:
        row = make("a")
        assert json_of("model_remove", "a") == {"id": row.pk, "model_id": "a"}
        assert not ModelRow.objects.exists()


class TestShowing:
    def test_models_and_keys_that_name_none(self, make) -> None:
        assert output_of("model_list") == "No models.\n"
        row = make("a", aliases=("b",))
        accounts.team_create(name="t", limits=Limits(allowed_models=("gone", "b")))
        model_reports_write(process=serving_process(), statuses=(ModelStatus(row.pk, ModelState.READY),))
        out, err = StringIO(), StringIO()
        call_command("model_list", stdout=out, stderr=err)
        assert "1 ready" in out.getvalue()
        assert "'gone'" in err.getvalue()
        assert "'b'" not in err.getvalue()
        (listed,) = json.loads(output_of("model_list", "--json"))
        assert listed["status"][0]["state"] == "ready"

    def test_status_by_process(self, make) -> None:
        assert output_of("model_status") == "No process serves.\n"
        row, process = make("a"), serving_process()
        status = ModelStatus(row.pk, ModelState.FAILED, 1, "no memory", 0, 3 * 2**20)
        model_reports_write(process=process, statuses=(status,))
        (told,) = json.loads(output_of("model_status", "a", "--json"))
        assert (told["model_id"], told["process"], told["cause"]) == ("a", process.name, "no memory")
        assert "3 MiB" in output_of("model_status")


@pytest.mark.django_db(transaction=True)
class TestWaiting:
    def test_until_every_process_has_done_it(self, make) -> None:
        row, first, second = make("a"), serving_process(), serving_process()
        for process in (first, second):
            model_reports_write(process=process, statuses=(ModelStatus(row.pk, ModelState.READY, 1),))

        def serve() -> None:
            try:
                for process in (first, second):
                    for state in (ModelState.DRAINING, ModelState.UNLOADED):
                        model_reports_write(process=process, statuses=(ModelStatus(row.pk, state, 2),))
            finally:
                connection.close()

        later = threading.Timer(0.3, serve)
        later.start()
        shown = json_of("model_unload", "a", "--wait=60")
        later.join()
        assert [one["state"] for one in shown["status"]] == ["unloaded", "unloaded"]

    def test_a_failure_ends_it_with_its_cause(self, make) -> None:
        row = make("a")
        failed = ModelStatus(row.pk, ModelState.FAILED, 2, "no memory")
        model_reports_write(process=serving_process(), statuses=(failed,))
        ModelRow.objects.update(wants_loaded=True, revision=1)
        assert "no memory" in problem_of("model_load", "a", "--wait=60")

    def test_where_nobody_serves_it_ends_after_its_time(self, make) -> None:
        make("a")
        assert "no process" in problem_of("model_load", "a", "--wait=0")
