#!/usr/bin/env python3
"""Our server with a meter beside it, for cpu_per_token.py: how much CPU time is llama.cpp's, how much ours.

    measured_server.py serve             as `manage.py serve`, with the next line in place of the web process
    measured_server.py web SOCKET        the web process; who connects to SOCKET gets one JSON reading

Nothing of the product is changed: each function of the bindings that the engine calls is replaced,
in this process only, by one that also adds up the CPU time of the calling thread inside of it.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(CHECKOUT))

SOCKET_NAME = "meter.socket"
ENGINE_THREAD = "skippy-engine"


class Meter:
    """CPU nanoseconds inside llama.cpp's functions, by thread and function."""

    def __init__(self) -> None:
        self.inside_ns: dict[tuple[int, str], int] = {}
        self._engine: Any = None

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        inside_ns = self.inside_ns
        clock, ident = time.thread_time_ns, threading.get_native_id

        def measured(*args: Any) -> Any:
            begin = clock()
            try:
                return function(*args)
            finally:
                key = (ident(), name)
                inside_ns[key] = inside_ns.get(key, 0) + clock() - begin

        return measured

    def install(self) -> None:
        """Before the engine is imported: it reads these names from the module at each call."""
        import llama_cpp

        for name in dir(llama_cpp):
            function = getattr(llama_cpp, name)
            if name.startswith("llama_") and callable(function) and not isinstance(function, type):
                setattr(llama_cpp, name, self.wrap(name, function))
        self._catch_engine()

    def _catch_engine(self) -> None:
        """Keep the engine thread that the server makes: a frozen heap no longer tells of it."""
        from inference.engine.thread import EngineThread

        make = EngineThread.__init__

        def init(engine: EngineThread, *args: Any, **options: Any) -> None:
            make(engine, *args, **options)
            self._engine = engine

        EngineThread.__init__ = init  # type: ignore[method-assign]

    def reading(self) -> dict[str, Any]:
        """All CPU times since the start, in ns; `tokens` and `steps` are the engine's own counts.

        Threads that Python does not know are llama.cpp's compute threads.
        """
        python_threads = {one.native_id: one.name for one in threading.enumerate() if one.native_id}
        threads = {}
        for task in Path("/proc/self/task").iterdir():
            tid = int(task.name)
            run_ns = int((task / "schedstat").read_text().split()[0])
            threads[tid] = {"name": python_threads.get(tid), "cpu_ns": run_ns}
        statistics = self._engine.statistics
        engine_tid = next(tid for tid, name in python_threads.items() if name == ENGINE_THREAD)
        inside_ns = dict(self.inside_ns)
        return {
            "wall_ns": time.monotonic_ns(),
            "process_ns": time.process_time_ns(),
            "threads": threads,
            "engine_tid": engine_tid,
            "engine_inside_ns": {name: ns for (tid, name), ns in inside_ns.items() if tid == engine_tid},
            "inside_ns": sum(inside_ns.values()),
            "tokens": statistics.total_generated_tokens,
            "prefill_tokens": statistics.total_prefill_tokens,
            "steps": statistics.total_steps,
            "num_lanes_used": statistics.lanes.num_used,
            "num_decoding": statistics.num_decoding,
        }

    def answer(self, path: Path) -> None:
        """One reading for each connection, for ever."""
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
            server.listen()
            while True:
                connection, _ = server.accept()
                with connection:
                    connection.sendall(json.dumps({"pid": os.getpid(), **self.reading()}).encode())


def main() -> int:
    if sys.argv[1] == "serve":
        from skippy_site.state import StateFolder
        from skippy_site.supervisor.programs import Programs
        from skippy_site.supervisor.serve import serve

        state = StateFolder.from_environment()
        web = (sys.executable, str(Path(__file__).resolve()), "web", str(state.root / SOCKET_NAME))
        return serve(programs=replace(Programs.of_this_checkout(state), server=web))
    from inference.engine.llama import library  # sets what llama.cpp reads when it is loaded

    assert library
    meter = Meter()
    meter.install()
    path = Path(sys.argv[2])
    path.unlink(missing_ok=True)
    threading.Thread(target=meter.answer, args=(path,), name="meter", daemon=True).start()
    from skippy_site.servers.__main__ import main as web_main

    return web_main()


if __name__ == "__main__":
    sys.exit(main())
