"""Starts the servers that are compared, each with the same model file, threads, lanes and KV cells.

Ours is started as an operator would, in a state folder of its own. Peers run in environments of
their own, because their packages are none of ours.
"""

from __future__ import annotations

import json
import os
import platform
import re
import signal
import socket
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent
START_PATIENCE_S = 120.0
STOP_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """What every server is given."""

    threads: int
    lanes: int
    context: int


@dataclass
class Server:
    """A running server that answers the OpenAI API at a port of this machine.

    `extra` is what its requests carry beside the common fields. `seeds` counts the measurements, so
    that no prompt is asked twice.
    """

    name: str
    port: int
    model: str
    key: str
    process: subprocess.Popen[bytes]
    extra: Mapping[str, Any] = field(default_factory=lambda: {"ignore_eos": True})
    seeds: int = 0

    def arguments(self, **more: Any) -> Namespace:
        """For `load.level`."""
        given = {
            "path": "/v1/chat/completions",
            "key": self.key,
            "model": self.model,
            "temperature": 0.8,
            "timeout": 600.0,
            "extra": self.extra,
            "shared_prefix": 0.0,
            "shared_seed": 1,
            "prompt_words": 100,
            "max_tokens": 64,
        }
        return Namespace(**(given | more))

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_ours(
    model: Path,
    home: Path,
    sizes: Sizes,
    *,
    server: str,
    command: Sequence[str] = ("manage.py", "serve"),
    settings: Mapping[str, str] | None = None,
) -> Server:
    """`command` under our Python, with more `settings`; the key is what its first start shows."""
    port = free_port()
    environment = {
        "PATH": os.environ["PATH"],
        "SKIPPY_HOME": str(home),
        "SKIPPY_PORT": str(port),
        "SKIPPY_MODEL": str(model),
        "SKIPPY_MODEL_ID": "bench",
        "SKIPPY_SERVER": server,
        "SKIPPY_THREADS": str(sizes.threads),
        "SKIPPY_LANES": str(sizes.lanes),
        "SKIPPY_CONTEXT": str(sizes.context),
        **(settings or {}),
    }
    home.mkdir(parents=True, exist_ok=True)
    log = home / "serve.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *command], cwd=CHECKOUT, env=environment, stdout=output, stderr=output
        )
    deadline = time.monotonic() + START_PATIENCE_S
    while "Skippy is ready" not in (text := log.read_text()):
        if process.poll() is not None or time.monotonic() > deadline:
            process.terminate()
            raise SystemExit(f"our server did not start:\n{text}")
        time.sleep(0.2)
    found = re.search(r"sk-skippy-\w+", text)
    assert found is not None
    return Server("ours", port, "bench", found[0], process)


def create_key(home: Path, user: str) -> str:
    """A key of another user of our server, which runs."""
    command = [sys.executable, "manage.py", "api_key_create", "--user", user, "--name", user, "--json"]
    environment = {"PATH": os.environ["PATH"], "SKIPPY_HOME": str(home)}
    done = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=True)
    return str(json.loads(done.stdout)["key"])


def start_llama_server(model: Path, python: str, sizes: Sizes, *, pooling: str = "") -> Server:
    """llama.cpp's own C++ server, prebuilt in the package xllamacpp; with `pooling` for embeddings."""
    port = free_port()
    command = [python, str(HERE / "llama_server.py"), str(model), "--port", str(port)]
    command += [
        f"--lanes={sizes.lanes}",
        f"--context={sizes.context}",
        f"--threads={sizes.threads}",
        *([f"--pooling={pooling}"] if pooling else []),
    ]
    process = _start_peer("llama-server", command, f"http://127.0.0.1:{port}/health")
    return Server("llama-server", port, "peer", "none", process)


def start_examples_server(model: Path, python: str, script: Path, home: Path, sizes: Sizes) -> Server:
    """llama-cpp-python's `examples/server/server.py`.

    Set as in its own examples (configs/), but for what all servers are given. It knows no
    `ignore_eos`, so the tokens that could end an answer are made impossible by their logits.
    """
    port = free_port()
    settings = {
        "server": {"host": "127.0.0.1", "port": port},
        "model": {
            "path": str(model),
            "alias": "peer",
            "n_ctx": sizes.context,
            "n_seq_max": sizes.lanes,
            "n_batch": 512,
            "n_ubatch": 512,
            "threads": sizes.threads,
            "threads_batch": sizes.threads,
            "kv_unified": True,
            "store_logits": False,
            "use_mmap": True,
        },
    }
    home.mkdir(parents=True, exist_ok=True)
    file = home / "examples-server.json"
    file.write_text(json.dumps(settings))
    url = f"http://127.0.0.1:{port}/v1/models"
    process = _start_peer("examples-server", [python, str(script), "-C", str(file)], url)
    extra = {"logit_bias": {str(token): -100.0 for token in end_token_ids(model)}}
    return Server("examples-server", port, "peer", "none", process, extra)


def _start_peer(name: str, command: list[str], health_url: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + START_PATIENCE_S
    while True:
        try:
            with urlopen(Request(health_url), timeout=2) as answer:
                if answer.status == 200:
                    return process
        except OSError:
            pass
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise SystemExit(f"the peer {name} did not start") from None
        time.sleep(0.2)


def end_token_ids(model: Path) -> list[int]:
    """The tokens with which llama.cpp lets this model end an answer."""
    code = (
        "import sys; from pathlib import Path; from inference.engine.config import EngineConfig; "
        "from inference.engine.llama import LlamaModel; "
        "print(*LlamaModel.load(Path(sys.argv[1]), EngineConfig()).tokenizer.end_token_ids)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(model)], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    return sorted(int(one) for one in done.stdout.split())


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    names = re.findall(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return {
        "cpu": names[0] if names else platform.processor(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
    }


def write_results(path: Path, found: dict[str, Any]) -> None:
    """What was found, with the command that found it and the machine."""
    told = {"command": shown_command(), "machine": machine(), **found}
    path.write_text(json.dumps(told, indent=1) + "\n")


def shown_command() -> list[str]:
    """The command line as it may be published: without this machine's folders."""
    return [re.sub(r"(^|=)/.*/", r"\1", part) for part in sys.argv]
