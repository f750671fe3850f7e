import stat
import subprocess
import sys

from skippy_site.secret import secret_key


def test_is_made_once_with_mode_0600_and_kept(tmp_path):
    file = tmp_path / "deep" / "secret_key"

    first = secret_key(file)

    assert len(first) > 60
    assert secret_key(file) == first
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [p.name for p in file.parent.iterdir()] == ["secret_key"]


def test_processes_that_start_together_end_with_one_key(tmp_path):
    code = (
        "from pathlib import Path; from skippy_site.secret import secret_key; "
        f"print(secret_key(Path({str(tmp_path / 'key')!r})))"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]

    keys = {process.communicate(timeout=30)[0].strip() for process in running}

    assert len(keys) == 1
