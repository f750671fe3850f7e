import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from skippy_site.provision.build_options import choose_build
from skippy_site.provision.child_processes import ChildProcesses, child_environment
from skippy_site.provision.compiler import find_compiler
from skippy_site.provision.cpu_features import Cpu
from skippy_site.provision.llama_wheel import LlamaBuilder
from skippy_site.provision.progress import ReportedStep
from skippy_site.provision.virtual_env import VirtualEnv
from skippy_site.provision.wheel_cache import WheelCache

VERSION = "0.0.1"
CPU = Cpu("Linux", "x86_64", "made up", frozenset({"avx", "avx2"}))


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> VirtualEnv:
    folder = tmp_path_factory.mktemp("a place") / "with spaces" / ".venv"
    folder.parent.mkdir()
    venv = VirtualEnv(folder)
    lines: list[str] = []
    venv.make(
        ChildProcesses(),
        ReportedStep(lines.append),
        log=folder.parent / "log",
        environment=child_environment(),
        python=Path(sys.executable),
    )
    assert venv.is_usable()
    assert lines[-1] == "made the virtual environment .venv"
    return venv


@pytest.fixture
def builder(tmp_path: Path) -> LlamaBuilder:
    cache = WheelCache(tmp_path / "wheels")
    return LlamaBuilder(CPU, cache, ChildProcesses(), tmp_path / "log", child_environment(), VERSION)


def put_wheel(builder: LlamaBuilder, folder: Path, content: str) -> None:
    """What a build would leave in the cache, with a text in the place of the library."""
    wheel = folder / f"llama_cpp_python-{VERSION}-py3-none-any.whl"
    metadata = f"llama_cpp_python-{VERSION}.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("llama_cpp/__init__.py", f"CONTENT = {content!r}\n")
        archive.writestr(
            f"{metadata}/METADATA", f"Metadata-Version: 2.1\nName: llama_cpp_python\nVersion: {VERSION}\n"
        )
        archive.writestr(
            f"{metadata}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n"
        )
        archive.writestr(f"{metadata}/RECORD", f"llama_cpp/__init__.py,,\n{metadata}/RECORD,,\n")
    options = choose_build(VERSION, builder.cpu, find_compiler(builder.environment), builder.environment)
    with builder.cache.building(options.key, waiting=lambda: None):
        builder.cache.publish(options.key, wheel, notes={})


def install(builder: LlamaBuilder, venv: VirtualEnv) -> str:
    step = ReportedStep(lambda text: None)
    wheel, options = builder.obtain(venv.python, step)
    builder.install(venv, wheel, options, step)
    return (venv.site_packages / "llama_cpp" / "__init__.py").read_text()


def test_a_cached_wheel_is_installed_and_known_again(
    builder: LlamaBuilder, venv: VirtualEnv, tmp_path: Path
) -> None:
    put_wheel(builder, tmp_path, "first")
    assert builder.complaint(venv) is not None
    assert install(builder, venv) == "CONTENT = 'first'\n"
    assert builder.complaint(venv) is None


def test_on_another_cpu_another_build_takes_its_place(
    builder: LlamaBuilder, venv: VirtualEnv, tmp_path: Path
) -> None:
    put_wheel(builder, tmp_path, "first")
    install(builder, venv)
    moved = replace(builder, cpu=replace(CPU, model="older", flags=frozenset({"avx"})))
    assert "older" in (moved.complaint(venv) or "")
    put_wheel(moved, tmp_path, "second")
    assert install(moved, venv) == "CONTENT = 'second'\n"
    assert moved.complaint(venv) is None
    assert builder.complaint(venv) is not None
