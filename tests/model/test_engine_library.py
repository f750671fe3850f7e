from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

from inference.engine.config import EngineConfig
from inference.engine.llama import library
from inference.engine.llama.model import LlamaModel
from inference.engine.load_error import ModelLoadError

LOGGER = logging.getLogger("test.llama.cpp")


@pytest.mark.parametrize(
    ("level", "expected"),
    [(1, logging.DEBUG), (2, logging.INFO), (3, logging.WARNING), (4, logging.ERROR), (0, logging.INFO)],
)
def test_lines_have_llama_cpps_true_levels(
    level: int, expected: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, LOGGER.name):
        library.LogBridge(LOGGER)(level, b"something happened\n")
    (record,) = caplog.records
    assert (record.levelno, record.getMessage()) == (expected, "something happened")


def test_pieces_are_joined_to_a_line_at_the_level_of_its_beginning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bridge = library.LogBridge(LOGGER)
    with caplog.at_level(logging.INFO, LOGGER.name):
        bridge(3, b"loading ")
        bridge(5, b"tensors \xe2\x82")
        bridge(5, b"...\n")
        bridge(1, b"not wanted ")
        bridge(5, b"nor this\n")
        bridge(5, b"nor a line from nowhere\n")
        bridge(2, b"\n")
        bridge(4, None)
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.WARNING, "loading tensors �...")
    ]


def test_threads_do_not_mix_their_lines(caplog: pytest.LogCaptureFixture) -> None:
    bridge = library.LogBridge(LOGGER)
    with caplog.at_level(logging.INFO, LOGGER.name):
        bridge(2, b"one ")
        other = threading.Thread(target=lambda: bridge(3, b"two\n"))
        other.start()
        other.join()
        bridge(5, b"and only\n")
    assert [record.getMessage() for record in caplog.records] == ["two", "one and only"]


def test_a_line_without_end_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    bridge = library.LogBridge(LOGGER)
    with caplog.at_level(logging.INFO, LOGGER.name):
        bridge(2, b"x" * 10_000)
    assert len(caplog.records[0].getMessage()) == library.MAX_LINE_CHARS


def test_reserved_buffers_are_noted_whatever_level_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    bridge = library.LogBridge(LOGGER)
    with caplog.at_level(logging.ERROR, LOGGER.name):
        bridge(2, b"load_tensors:   CUDA0 model buffer size =     9.00 MiB\n")
        with bridge.buffers() as noted:
            bridge(2, b"load_tensors:   CPU_Mapped model buffer size =   136.50 MiB\n")
            bridge(2, b"llama_kv_cache:        CUDA0 KV buffer size =     1.50 MiB\n")
            bridge(2, b"llama_context:        CPU  output buffer size =     3.00 MiB\n")
            bridge(2, b"sched_reserve:        CPU compute buffer size =    17.51 MiB\n")
            bridge(1, b"sched_reserve:        CPU compute buffer size =    17.51 MiB\n")
            bridge(2, b"llama_context: compute buffer size is what it is\n")
            bridge(2, b"x: \xff\xfe KV buffer size = 1.2.3 MiB\n")
            other = threading.Thread(target=lambda: bridge(2, b"x: CPU KV buffer size = 1.00 MiB\n"))
            other.start()
            other.join()
        bridge(2, b"llama_kv_cache:        CUDA0 KV buffer size =     1.50 MiB\n")
    mebibyte = 1024 * 1024
    assert noted == [
        ("CPU_Mapped", "model", int(136.5 * mebibyte)),
        ("CUDA0", "KV", int(1.5 * mebibyte)),
        ("CPU", "output", 3 * mebibyte),
        ("CPU", "compute", int(17.51 * mebibyte)),
    ]
    assert not caplog.records


def test_loading_a_model_logs_through_ours_and_not_to_stderr(
    tiny_model_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.INFO, "llama.cpp"):
        LlamaModel.load(tiny_model_path, EngineConfig()).close()
    lines = [record for record in caplog.records if record.name == "llama.cpp"]
    assert any("general.architecture" in record.getMessage() for record in lines)
    assert {record.levelno for record in lines} <= {logging.INFO, logging.WARNING}
    assert capfd.readouterr().err == ""


def test_an_error_of_llama_cpp_is_logged_as_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + b"\xff" * 100)
    with caplog.at_level(logging.DEBUG, "llama.cpp"), pytest.raises(ModelLoadError):
        LlamaModel.load(broken, EngineConfig())
    assert logging.ERROR in {record.levelno for record in caplog.records if record.name == "llama.cpp"}


def test_starting_twice_is_harmless() -> None:
    library.start_backend()
    library.start_backend()
    assert "CPU" in library.system_info()
    assert library.build_name().endswith("/0.3.36")
