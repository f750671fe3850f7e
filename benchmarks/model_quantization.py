"""Which quantization the default model should be served in, on this machine's CPU.

    .venv/bin/python benchmarks/model_quantization.py [--rounds 5] [--threads 0] [--write]

The package that carries SmolLM2-135M-Instruct has its weights as Q4_1. The same weights are rewritten
as Q8_0 and Q4_0; then, round by round and each kind in turn (so that other load on the machine falls on
all of them), it times with llama.cpp alone:

    prefill     128 tokens in one batch
    decode 1    48 steps of one sequence
    decode 8    48 steps of eight sequences in one batch

and reports medians and the best rounds in tokens per second. Speed is not all: `likeness` compares each
kind's predictions with those of the original over a text (share of equal first choices, and the mean
Kullback-Leibler divergence in nats). --write puts the result beside this file, with the machine.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

from skippy_site.provision.child_processes import ChildProcesses, child_environment  # noqa: E402
from skippy_site.provision.cpu_features import read_cpu  # noqa: E402
from skippy_site.provision.default_model import fetch_default_model, original_file  # noqa: E402
from skippy_site.provision.progress import ReportedStep  # noqa: E402
from skippy_site.provision.requirement_files import LLAMA  # noqa: E402
from skippy_site.state import StateFolder  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "model_quantization.json"
KINDS = ("Q4_1", "Q8_0", "Q4_0")
NUM_PROMPT_TOKENS = 128
NUM_STEPS = 48
NUM_LANES = 8
TEXT = (
    "The river rises in the hills, where the rain is heavy in spring, and runs for two hundred miles to the "
    "sea. Along its banks the towns grew rich on wool, and later on cotton; the mills that stood by it "
    "are flats and museums now. In 1846 a bridge was built of iron, the first of its kind, and people came "
    "from far away to see it. Children are told that the engineer slept under it for a week to show that it "
    "would hold. Today the bridge carries a railway, two lanes of traffic and, on Sundays, a market where "
    "one can buy bread, cheese and old books. What would the engineer say of it? Perhaps nothing at all."
)


@dataclass(frozen=True)
class Speeds:
    """Tokens per second."""

    prefill: float
    decode_1: float
    decode_8: float


@dataclass(frozen=True)
class Likeness:
    """How near a kind's predictions are to the original's."""

    same_first_choice: float
    mean_divergence_nats: float


class LoadedModel:
    """One kind of the weights with a context of its own. Not shared between threads."""

    def __init__(self, llama: Any, file: Path, num_threads: int) -> None:
        self._llama = llama
        self.size_bytes = file.stat().st_size
        self._model = llama.llama_model_load_from_file(os.fsencode(file), llama.llama_model_default_params())
        wanted = llama.llama_context_default_params()
        wanted.n_ctx, wanted.n_batch, wanted.n_seq_max, wanted.kv_unified = 4096, 512, NUM_LANES, True
        wanted.n_threads = wanted.n_threads_batch = num_threads
        self._context = llama.llama_init_from_model(self._model, wanted)
        if not self._context:
            raise SystemExit(f"{file} cannot be loaded")
        vocabulary = llama.llama_model_get_vocab(self._model)
        self.num_vocabulary = llama.llama_vocab_n_tokens(vocabulary)
        held = (llama.llama_token * 512)()
        num_tokens = llama.llama_tokenize(
            vocabulary, TEXT.encode(), len(TEXT.encode()), held, 512, False, False
        )
        self.text = list(held[:num_tokens])
        self._batch = llama.llama_batch_init(512, 0, 1)

    def clear(self) -> None:
        self._llama.llama_memory_clear(self._llama.llama_get_memory(self._context), True)

    def decode(self, rows: list[tuple[int, int, int, bool]]) -> None:
        """Rows of (token, position, sequence, wants logits); raises where llama.cpp refuses."""
        batch = self._batch
        batch.n_tokens = len(rows)
        for index, (token, position, sequence, wants_logits) in enumerate(rows):
            batch.token[index], batch.pos[index] = token, position
            batch.n_seq_id[index], batch.seq_id[index][0] = 1, sequence
            batch.logits[index] = wants_logits
        code = self._llama.llama_decode(self._context, batch)
        if code != 0:
            raise SystemExit(f"llama_decode returned {code}")
        self._llama.llama_synchronize(self._context)

    def prefill_rate(self) -> float:
        self.clear()
        prompt = self.text[:NUM_PROMPT_TOKENS]
        started_ts = time.perf_counter()
        self.decode([(token, index, 0, index + 1 == len(prompt)) for index, token in enumerate(prompt)])
        return len(prompt) / (time.perf_counter() - started_ts)

    def decode_rate(self, num_lanes: int) -> float:
        self.clear()
        for lane in range(num_lanes):
            self.decode([(token, index, lane, False) for index, token in enumerate(self.text[:16])])
        started_ts = time.perf_counter()
        for step in range(NUM_STEPS):
            token = self.text[16 + step]
            self.decode([(token, 16 + step, lane, True) for lane in range(num_lanes)])
        return NUM_STEPS * num_lanes / (time.perf_counter() - started_ts)

    def log_probabilities(self) -> np.ndarray:
        """Of every next token over the text: (positions, vocabulary)."""
        self.clear()
        self.decode([(token, index, 0, True) for index, token in enumerate(self.text)])
        rows = []
        for index in range(len(self.text)):
            pointer = self._llama.llama_get_logits_ith(self._context, index)
            logits = np.ctypeslib.as_array(pointer, (self.num_vocabulary,)).astype(np.float64)
            rows.append(logits - logits.max() - np.log(np.exp(logits - logits.max()).sum()))
        return np.stack(rows)


def prepare_files(folder: Path) -> dict[str, Path]:
    """The three kinds, made from the package's file."""
    state = StateFolder(folder)
    children = ChildProcesses()
    step = ReportedStep(lambda text: print(text, file=sys.stderr))
    log = folder / "log"
    fetch_default_model(state, children, step, python=Path(sys.executable), log=log)
    files = {"Q4_1": original_file(state)}
    for kind in KINDS[1:]:
        files[kind] = folder / f"{kind}.gguf"
        children.run(
            [sys.executable, "-m", "skippy_site.provision.requantize", files["Q4_1"], files[kind], kind],
            log=log,
            environment=child_environment(PYTHONPATH=str(CHECKOUT)),
            what="Rewriting",
            advice="",
        )
    return files


def measure(models: dict[str, LoadedModel], num_rounds: int) -> tuple[dict[str, Speeds], dict[str, Speeds]]:
    """Medians over the rounds, and the best of them (what other load disturbs least)."""
    for model in models.values():
        model.prefill_rate()  # pages the weights in
    rates: dict[str, list[tuple[float, float, float]]] = {kind: [] for kind in models}
    for number in range(num_rounds):
        # Another order each round, so that no kind always follows the same one.
        for kind in (*KINDS[number % 3 :], *KINDS[: number % 3]):
            model = models[kind]
            rates[kind].append((model.prefill_rate(), model.decode_rate(1), model.decode_rate(NUM_LANES)))
    columns = {kind: list(zip(*rows, strict=True)) for kind, rows in rates.items()}
    medians = {
        kind: Speeds(*(round(statistics.median(row), 1) for row in rows)) for kind, rows in columns.items()
    }
    best = {kind: Speeds(*(round(max(row), 1) for row in rows)) for kind, rows in columns.items()}
    return medians, best


def compare(models: dict[str, LoadedModel]) -> dict[str, Likeness]:
    original = models["Q4_1"].log_probabilities()
    found = {}
    for kind, model in models.items():
        other = model.log_probabilities()
        divergence = (np.exp(original) * (original - other)).sum(axis=1).mean()
        same = (original.argmax(axis=1) == other.argmax(axis=1)).mean()
        found[kind] = Likeness(round(float(same), 4), round(float(divergence), 5))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0, help="0: one for each core")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.relative_to(CHECKOUT)}")
    arguments = parser.parse_args()
    num_threads = arguments.threads or len(os.sched_getaffinity(0))

    import llama_cpp

    silent = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(silent, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    cpu = read_cpu()
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="skippy-quantization-") as folder:
        files = prepare_files(Path(folder))
        models = {kind: LoadedModel(llama_cpp, files[kind], num_threads) for kind in KINDS}
        likeness = compare(models)
        medians, best = measure(models, arguments.rounds)
    result = {
        "command": " ".join(["python", "benchmarks/model_quantization.py", *sys.argv[1:]]),
        "measured_on": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "cpu": cpu.model,
        "cpu_flags": list(cpu.relevant_flags),
        "num_threads": num_threads,
        "load_average_before": round(load_before, 2),
        "llama_cpp_python": LLAMA.only_version(),
        "system_info": llama_cpp.llama_print_system_info().decode(),
        "rounds": arguments.rounds,
        "load_average_after": round(os.getloadavg()[0], 2),
        "tokens_per_second_median": {kind: asdict(found) for kind, found in medians.items()},
        "tokens_per_second_best": {kind: asdict(found) for kind, found in best.items()},
        "likeness_to_q4_1": {kind: asdict(found) for kind, found in likeness.items()},
        "size_mb": {kind: round(model.size_bytes / 1e6, 1) for kind, model in models.items()},
    }
    print(json.dumps(result, indent=2))
    if arguments.write:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
