"""The service is backed up while it answers, its folder is lost, and it is brought back."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from skippy_site.backup.archive import BackupReader
from skippy_site.state import CHECKOUT
from tests.integration.supervisor.running_service import RunningService
from tests.model.tiny_model import write_tiny_model
from tests.model_files import default_model_path

pytestmark = [pytest.mark.slow, pytest.mark.timeout(480)]

KEY = re.compile(r"sk-skippy-\w{49}")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Under /tmp and open, so that the database is in the state folder also where root runs this."""
    path = Path(tempfile.mkdtemp(prefix="skippy-it-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def service(folder: Path) -> Iterator[RunningService]:
    model = write_tiny_model(default_model_path(), folder / "tiny.gguf")
    settings = {"SKIPPY_MODEL": str(model), "SKIPPY_CONTEXT": "1024", "SKIPPY_LANES": "2"}
    made = RunningService(folder / "home", environment=settings, arguments=("manage.py", "serve"))
    yield made
    made.close()


def chat(service: RunningService, key: str) -> int:
    return httpx.post(
        f"http://127.0.0.1:{service.port}/v1/chat/completions",
        json={"model": "tiny", "max_tokens": 3, "messages": [{"role": "user", "content": "hi"}]},
        headers={"Authorization": f"Bearer {key}"},
        timeout=60,
    ).status_code


def usage(service: RunningService, key: str) -> Any:
    answer = httpx.get(
        f"http://127.0.0.1:{service.port}/v1/usage", headers={"Authorization": f"Bearer {key}"}, timeout=60
    )
    assert answer.status_code == 200
    return answer.json()


def manage(service: RunningService, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=CHECKOUT,
        env={"PATH": "/usr/bin:/bin", "SKIPPY_HOME": str(service.state.root)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_backup_wipe_restore_the_same_numbers_and_keys(service: RunningService, folder: Path) -> None:
    service.start(limit_s=120)
    (key,) = KEY.findall(service.output)
    for _ in range(3):
        assert chat(service, key) == 200
    busy = folder / "busy.tar"
    during = threading.Thread(target=manage, args=(service, "backup", str(busy)))
    during.start()
    statuses = [chat(service, key)]
    while during.is_alive():
        statuses.append(chat(service, key))
    during.join()
    assert set(statuses) == {200}
    target = folder / "b.tar"
    manage(service, "backup", str(target))
    before = usage(service, key)
    assert service.stop(limit_s=60) == 0

    readers = [BackupReader(path) for path in (busy, target)]
    early, late = [reader.manifest.num_rows["inference_generationrecord"] for reader in readers]
    for reader in readers:
        reader.close()
    assert 3 <= early <= late == 3 + len(statuses)

    shutil.rmtree(service.state.root)
    manage(service, "restore", str(target))
    service.start(limit_s=120)
    assert KEY.findall(service.output) == []
    assert usage(service, key) == before
    assert chat(service, key) == 200
    assert service.stop(limit_s=60) == 0
