"""What the import linter cannot see: strings, and what a whole process ends up loading."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = [
    "inference.domain",
    "inference.engine",
    "inference.admission",
    "inference.prompting",
    "inference.parsing",
    "inference.openai",
    "inference.streaming",
    "inference.services",
    "inference.telemetry",
    "hooks.contracts",
    "hooks.conditions",
    "hooks.matching",
    "hooks.applying",
    "hooks.exchange",
    "hooks.guard",
    "hooks.examples",
]
OUTSIDE_CORE = {"llama"}


def core_modules() -> list[str]:
    modules = ["accounts.contracts", "accounts.keys"]
    for package in CORE:
        for file in (ROOT / package.replace(".", "/")).rglob("*.py"):
            parts = file.relative_to(ROOT).with_suffix("").parts
            if not OUTSIDE_CORE & set(parts):
                modules.append(".".join(parts).removesuffix(".__init__"))
    return sorted(modules)


def loaded_after(modules: list[str]) -> set[str]:
    code = f"import sys\nfor m in {modules!r}: __import__(m)\nprint(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_core_loads_no_framework_and_no_llama():
    modules = core_modules()
    assert len(modules) > 30

    loaded = loaded_after(modules)

    assert not loaded & {"django", "rest_framework", "channels", "celery", "asgiref", "llama_cpp"}


@pytest.mark.parametrize("banned", ["utils", "helpers", "common", "base"])
def test_no_module_is_named_after_nothing(banned):
    names = {p.stem for p in ROOT.glob("[!.]*/**/*.py")} | {
        # Folders of templates that take the place of others' are called as theirs.
        p.name
        for p in ROOT.glob("[!.]*/**/")
        if p.is_dir() and "templates" not in p.parts
    }

    assert banned not in names


def test_files_stay_readable():
    long = {
        str(path.relative_to(ROOT)): lines
        for package in ("inference", "accounts", "hooks", "skippy_site")
        for path in (ROOT / package).rglob("*.py")
        if "migrations" not in path.parts and (lines := len(path.read_text().splitlines())) > 400
    }

    assert long == {}
