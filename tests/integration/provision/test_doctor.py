import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from skippy_site.env import read_environment
from skippy_site.state import CHECKOUT, StateFolder
from skippy_site.supervisor.discovery import service_urls
from tests.model_files import default_model_path

MODULE = ["-m", "skippy_site.provision.doctor"]
COMMAND = ["manage.py", "doctor"]
URLS = ("DATABASE_URL", "REDIS_URL", "CELERY_BROKER_URL")


def run_doctor(command: list[str], home: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in URLS}
    environment |= {"SKIPPY_HOME": str(home), **settings}
    return subprocess.run(
        [sys.executable, *command], cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return str(taken.getsockname()[1])


@pytest.mark.parametrize("command", [MODULE, COMMAND])
def test_a_machine_in_order_has_no_problems(command: list[str], tmp_path: Path, free_port: str) -> None:
    done = run_doctor(command, tmp_path / "a home", SKIPPY_PORT=free_port)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "problem " not in done.stdout
    for subject in (
        "Python",
        "compiler",
        "CPU",
        "llama.cpp",
        "memory",
        "disk",
        "Postgres",
        "broker",
        "service",
        "devices",
    ):
        assert f" {subject}: " in done.stdout


def test_a_wrong_setting_is_a_problem_and_the_machine_is_checked_all_the_same(tmp_path: Path) -> None:
    done = run_doctor(MODULE, tmp_path, SKIPPY_LANES="many")
    assert done.returncode == 1
    assert "problem  settings: SKIPPY_LANES" in done.stdout
    assert "compiler: " in done.stdout


def test_what_the_model_would_take_is_told_and_a_gpu_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    model = str(default_model_path())
    done = run_doctor(MODULE, tmp_path, SKIPPY_MODEL=model, SKIPPY_KV_TYPE_K="q8_0", SKIPPY_CONTEXT="4096")
    assert "ok       model memory: CPU: weights " in done.stdout
    assert "KV cells 73 MB" in done.stdout
    done = run_doctor(MODULE, tmp_path, SKIPPY_MODEL=model, SKIPPY_CONTEXT="16000000")
    assert done.returncode == 1
    assert "16000000 KV cells need" in done.stdout
    done = run_doctor(MODULE, tmp_path, SKIPPY_GPU_LAYERS="10")
    assert done.returncode == 1
    assert "problem  hardware: SKIPPY_GPU_LAYERS asks for a GPU" in done.stdout


def test_a_port_in_use_is_a_problem(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = run_doctor(MODULE, tmp_path, SKIPPY_PORT=port)
    assert done.returncode == 1
    assert f"port {port} on 127.0.0.1 is in use" in done.stdout


def test_services_that_do_not_answer_are_named_without_their_passwords(
    tmp_path: Path, free_port: str
) -> None:
    done = run_doctor(
        MODULE,
        tmp_path,
        SKIPPY_PORT=free_port,
        DATABASE_URL=f"postgresql://me:s3cret@127.0.0.1:{free_port}/db",
        REDIS_URL=f"redis://:s3cret@127.0.0.1:{free_port}/0",
        CELERY_BROKER_URL=f"amqp://me:s3cret@127.0.0.1:{free_port}//",
    )
    assert done.returncode == 1
    for name in URLS:
        assert name in done.stdout
    assert "s3cret" not in done.stdout + done.stderr


def test_services_that_answer_are_well(tmp_path: Path, free_port: str) -> None:
    urls = service_urls(read_environment(), StateFolder.from_environment())
    given = {"DATABASE_URL": urls.database_url, "REDIS_URL": urls.redis_url}
    done = run_doctor(MODULE, tmp_path, SKIPPY_PORT=free_port, **given)
    assert done.returncode == 0, done.stdout
    assert "ok       Postgres: postgresql://" in done.stdout
    assert "ok       broker: REDIS_URL: unix://" in done.stdout


def test_before_anything_is_installed_it_checks_the_machine(tmp_path: Path) -> None:
    script = (
        f"import sys; sys.path.insert(0, {str(CHECKOUT)!r}); "
        "import skippy_site.provision.doctor as doctor; doctor.report()"
    )
    done = run_doctor(["-S", "-c", script], tmp_path)
    assert "compiler: " in done.stdout
    assert "they are checked once the dependencies are installed" in done.stdout
    assert done.stderr == ""
