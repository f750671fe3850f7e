import sys
from pathlib import Path

import pytest

from skippy_site.provision.problem import ProvisionProblem
from skippy_site.provision.progress import ReportedStep
from skippy_site.provision.requirement_files import RequirementFile
from skippy_site.provision.virtual_env import VirtualEnv

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def venv(tmp_path: Path) -> VirtualEnv:
    """What `python -m venv` leaves, as far as it is looked at."""
    venv = VirtualEnv(tmp_path / ".venv")
    pip = venv.folder / "lib" / f"python{VERSION}" / "site-packages" / "pip"
    pip.mkdir(parents=True)
    (pip / "__init__.py").touch()
    venv.python.parent.mkdir()
    venv.python.symlink_to(sys.executable)
    (venv.folder / "pyvenv.cfg").write_text(f"home = /usr/bin\nversion = {VERSION}.2\n")
    return venv


def test_a_whole_environment_is_usable(venv: VirtualEnv) -> None:
    assert venv.is_usable()


def test_an_interrupted_creation_is_not_usable(venv: VirtualEnv) -> None:
    (venv.site_packages / "pip" / "__init__.py").unlink()
    assert not venv.is_usable()


def test_an_environment_whose_python_is_gone_is_not_usable(venv: VirtualEnv, tmp_path: Path) -> None:
    venv.python.unlink()
    venv.python.symlink_to(tmp_path / "no-such-python")
    assert not venv.is_usable()


def test_an_environment_whose_python_became_another_is_not_usable(venv: VirtualEnv, tmp_path: Path) -> None:
    other = tmp_path / "python3.99"
    other.touch(0o755)
    venv.python.unlink()
    venv.python.symlink_to(other)
    assert not venv.is_usable()


def test_nothing_is_not_usable(tmp_path: Path) -> None:
    assert not VirtualEnv(tmp_path / ".venv").is_usable()
    with pytest.raises(ProvisionProblem, match="site-packages"):
        _ = VirtualEnv(tmp_path / ".venv").site_packages


def test_a_lock_counts_as_installed_in_exactly_the_state_that_was(venv: VirtualEnv, tmp_path: Path) -> None:
    lock = RequirementFile(tmp_path / "runtime.txt")
    lock.path.write_text("one==1.0\n")
    assert not venv.has(lock)
    venv.stamps.mkdir()
    (venv.stamps / "runtime.sha256").write_text(lock.digest)
    assert venv.has(lock)
    lock.path.write_text("one==1.1\n")
    assert not venv.has(lock)


def test_a_lock_that_is_updated_during_its_installation_was_not_installed(
    venv: VirtualEnv, tmp_path: Path
) -> None:
    lock = RequirementFile(tmp_path / "runtime.txt")
    lock.path.write_text("one==1.0\n")

    class Children:
        def run(self, *_: object, **__: object) -> None:
            lock.path.write_text("one==1.1\n")

    step = ReportedStep(lambda _: None)
    venv.install(lock, Children(), step, log=tmp_path / "log", environment={})  # type: ignore[arg-type]
    assert not venv.has(lock)
    lock.path.write_text("one==1.0\n")
    assert venv.has(lock)
