import hashlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from skippy_site.env import Environment
from skippy_site.provision.model_source import ModelProblem, resolve_model
from skippy_site.state import CHECKOUT, StateFolder
from tests.integration.provision.hub import COMMIT, Hub, running_hub

CONTENT = b"GGUF\x03\x00\x00\x00" + os.urandom(3_000_000)


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    state = StateFolder(tmp_path / "a state folder")
    state.make()
    return state


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with running_hub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        hub.put("org/repo", "model.gguf", CONTENT)
        yield hub


def resolve(state: StateFolder, model: str = "hf:org/repo/model.gguf") -> tuple[Path, list[str]]:
    lines: list[str] = []
    return resolve_model(Environment(model=model), state, lines.append), lines


def problem(state: StateFolder, model: str = "hf:org/repo/model.gguf") -> str:
    with pytest.raises(ModelProblem) as caught:
        resolve(state, model)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("SKIPPY_MODEL: ")
    return str(caught.value)


def test_a_file_is_fetched_once_and_then_used_without_the_hub(hub: Hub, state: StateFolder) -> None:
    path, lines = resolve(state)
    assert path.read_bytes() == CONTENT
    assert path.is_relative_to(state.models)
    assert path.name == "model.gguf"
    assert lines[-1].startswith("model.gguf is here (0.00 GB, commit 0123456789ab")
    asked = len(hub.requests)
    again, lines = resolve(state)
    assert (again, lines) == (path, [])
    assert len(hub.requests) == asked


@pytest.mark.parametrize("revision", ["v1", COMMIT])
def test_a_revision_has_a_place_of_its_own(hub: Hub, state: StateFolder, revision: str) -> None:
    path, _ = resolve(state, f"hf:org/repo/model.gguf@{revision}")
    assert f"/resolve/{revision}/" in hub.requests[-1][1]
    assert path != resolve(state)[0]


def test_all_files_of_a_split_model_are_fetched(hub: Hub, state: StateFolder) -> None:
    for number in (1, 2):
        hub.put("org/repo", f"q8/model-0000{number}-of-00002.gguf", CONTENT)
    path, _ = resolve(state, "hf:org/repo/q8/model-00001-of-00002.gguf")
    assert path.name == "model-00001-of-00002.gguf"
    assert path.with_name("model-00002-of-00002.gguf").is_file()


def bytes_present(state: StateFolder) -> int:
    return sum(part.stat().st_size for part in state.models.rglob("*.part"))


def test_a_download_whose_process_was_killed_goes_on_where_it_stopped(hub: Hub, state: StateFolder) -> None:
    content = CONTENT + bytes(12_000_000)
    hub.put("org/repo", "large.gguf", content)
    hub.stalls_after_bytes = 11_000_000  # the library writes in pieces of 10 MB
    script = (
        "import sys; from pathlib import Path; from skippy_site.env import Environment; "
        "from skippy_site.provision.model_source import resolve_model; "
        "from skippy_site.state import StateFolder; "
        "resolve_model(Environment(model='hf:org/repo/large.gguf'), StateFolder(Path(sys.argv[1])), print)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, state.root], cwd=CHECKOUT, stdout=subprocess.DEVNULL
    )
    try:
        while bytes_present(state) < 8_000_000:
            assert child.poll() is None
            time.sleep(0.05)
    finally:
        child.kill()
        child.wait()
    # Only now: a file system that takes a large write in parts finishes it after the signal.
    present = bytes_present(state)
    assert not list(state.models.rglob("large.gguf"))
    hub.stalls_after_bytes = None
    path, lines = resolve(state, "hf:org/repo/large.gguf")
    assert path.read_bytes() == content
    assert hub.requests[-1] == ("GET", "/org/repo/resolve/main/large.gguf", f"bytes={present}-")
    assert lines[1].startswith("going on with large.gguf")
    assert not list(state.models.rglob("*.part"))


def test_a_hub_that_cannot_go_on_sends_the_whole_again(hub: Hub, state: StateFolder) -> None:
    path, _ = resolve(state)
    place = path.parent
    path.unlink()
    hub.ignores_ranges = True
    etag = hashlib.sha256(CONTENT).hexdigest()
    short = hashlib.sha256(etag.encode()).hexdigest()[:12]
    (place / f".model.gguf.{short}.part").write_bytes(CONTENT[:500_000])
    assert resolve(state)[0].read_bytes() == CONTENT


def test_the_rest_of_another_version_is_not_mixed_in(hub: Hub, state: StateFolder) -> None:
    path, _ = resolve(state)
    path.unlink()
    stale = path.with_name(".model.gguf.0123456789ab.part")
    stale.write_bytes(b"something else")
    assert resolve(state)[0].read_bytes() == CONTENT
    assert not stale.exists()


def test_a_damaged_file_is_not_kept(hub: Hub, state: StateFolder) -> None:
    hub.announced_sha256 = "0" * 64
    assert "arrived damaged" in problem(state)
    assert not [path for path in state.models.rglob("*.gguf*") if not path.name.endswith(".lock")]


def test_a_token_is_sent_to_the_hub(hub: Hub, state: StateFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    resolve(state)
    assert set(hub.tokens) == {"Bearer hf_secret"}


def test_each_refusal_is_a_line_of_its_own(hub: Hub, state: StateFolder) -> None:
    hub.gated.add("org/gated")
    assert "no such file" in problem(state, "hf:org/repo/other.gguf")
    assert "no revision 'v9'" in problem(state, "hf:org/repo/model.gguf@v9")
    assert "no such repository" in problem(state, "hf:org/nowhere/model.gguf")
    assert "is gated" in problem(state, "hf:org/gated/model.gguf")
    hub.put("org/repo", "text.gguf", b"not a model at all")
    assert "is not a GGUF file" in problem(state, "hf:org/repo/text.gguf")


def test_without_a_network_it_says_what_cannot_be_reached(
    state: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{port}")
    assert f"127.0.0.1:{port} cannot be reached" in problem(state)


def test_a_server_that_is_no_hub_is_told(
    state: StateFolder, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", f"{hub.url}/elsewhere")
    assert "no such repository" in problem(state)


def test_a_disk_without_room_is_told_before_the_download(hub: Hub, state: StateFolder) -> None:
    hub.announced_size = 1 << 60
    assert "GB are free" in problem(state)
    assert [method for method, _, _ in hub.requests] == ["HEAD"]
