import struct
from pathlib import Path

import pytest

from skippy_site.env import Environment
from skippy_site.provision.default_model import rewritten_file
from skippy_site.provision.model_source import (
    HubFile,
    ModelProblem,
    check_gguf,
    parse_hub_name,
    resolve_model,
    resolve_projector,
)
from skippy_site.state import StateFolder


def write_gguf(path: Path, version: int = 3) -> Path:
    path.write_bytes(b"GGUF" + struct.pack("<I", version) + bytes(16))
    return path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hf:org/repo/file.gguf", HubFile("org/repo", "file.gguf", "main")),
        ("hf:org/repo/file.gguf@v1.0", HubFile("org/repo", "file.gguf", "v1.0")),
        ("hf:o-r.g/r_e.po/sub/dir/File-Q8_0.GGUF", HubFile("o-r.g/r_e.po", "sub/dir/File-Q8_0.GGUF", "main")),
        ("hf:org/repo/file.gguf@refs/pr/3", HubFile("org/repo", "file.gguf", "refs/pr/3")),
    ],
)
def test_a_hub_name_has_a_repository_a_file_and_a_revision(text: str, expected: HubFile) -> None:
    assert parse_hub_name(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "hf:",
        "hf:repo/file.gguf",
        "hf:org/repo",
        "hf:org/repo/file.safetensors",
        "hf:org/repo/../../file.gguf",
        "hf:org/repo/file.gguf@",
        "hf:org/repo/file.gguf@../x",
        "hf:org/repo/a file.gguf",
    ],
)
def test_anything_else_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ModelProblem) as caught:
        parse_hub_name(text)
    assert str(caught.value).startswith("SKIPPY_MODEL: ")
    assert "\n" not in str(caught.value)


def test_a_model_in_several_files_is_fetched_whole_the_named_one_first() -> None:
    wanted = parse_hub_name("hf:org/repo/q8/model-00002-of-00003.gguf")
    assert wanted.parts == (
        "q8/model-00002-of-00003.gguf",
        "q8/model-00001-of-00003.gguf",
        "q8/model-00003-of-00003.gguf",
    )
    assert parse_hub_name("hf:org/repo/model.gguf").parts == ("model.gguf",)


def test_a_path_is_used_as_it_is(tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "a model.gguf")
    found = resolve_model(Environment(model=str(file)), StateFolder(tmp_path), pytest.fail)
    assert found == file


def test_nothing_given_is_the_default_model(tmp_path: Path) -> None:
    state = StateFolder(tmp_path)
    state.make()
    file = write_gguf(rewritten_file(state))
    assert resolve_model(Environment(), state, pytest.fail) == file


def test_a_file_that_is_no_model_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "text.gguf").write_text("not a model at all")
    (tmp_path / "empty.gguf").touch()
    write_gguf(tmp_path / "old.gguf", version=1)
    cases = {
        tmp_path / "absent.gguf": "there is no file",
        tmp_path: "is a folder",
        tmp_path / "text.gguf": "is not a GGUF file",
        tmp_path / "empty.gguf": "is not a GGUF file",
        tmp_path / "old.gguf": "GGUF version 1",
        tmp_path / "text.gguf" / "below": "cannot be read",
    }
    for path, message in cases.items():
        with pytest.raises(ModelProblem, match=message) as caught:
            check_gguf(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_projector_is_found_like_a_model_and_named_by_its_own_variable(tmp_path: Path) -> None:
    file, state = write_gguf(tmp_path / "mmproj.gguf"), StateFolder(tmp_path)
    assert resolve_projector(Environment(), state, pytest.fail) is None
    assert resolve_projector(Environment(mmproj=str(file)), state, pytest.fail) == file
    for given in (str(tmp_path / "absent.gguf"), "hf:nonsense"):
        with pytest.raises(ModelProblem, match="SKIPPY_MMPROJ"):
            resolve_projector(Environment(mmproj=given), state, pytest.fail)
