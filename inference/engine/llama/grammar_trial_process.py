"""The other end of grammar_trial.py: a process that may die of a grammar.

Run as a script, without anything else of this package. Frames are a length (four bytes, little-endian)
and as many bytes, in both directions: first the vocabulary's size with its control and end tokens, then
questions, each a letter and a text. "g" is a grammar, answered by nothing where it is good; "b" one in
GBNF, answered by "+" and the same in Lark's notation. Other answers are "-" and a message. Before each
answer stands a space, or "w" where this process should not be asked again.
"""

from __future__ import annotations

import json
import resource
import struct
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper
from llguidance.gbnf_to_lark import any_to_lark

_LENGTH = struct.Struct("<I")
NUM_STEPS = 16


class _BareVocabulary:
    """All bytes and the control tokens, at ids as in the model: what makes grammars costly does not
    depend on the other tokens, and without them this process stays small."""

    def __init__(self, num_tokens: int, controls: dict[int, str], end_token_ids: list[int]) -> None:
        tokens = [b""] * num_tokens
        for token_id, text in controls.items():
            tokens[token_id] = b"\xff" + text.encode()
        free = [token_id for token_id in range(num_tokens) if token_id not in controls]
        self._byte_ids = free[:256]
        for byte, token_id in enumerate(self._byte_ids):
            tokens[token_id] = bytes([byte])
        self.tokens = tokens
        self.special_token_ids = sorted(controls)
        self.eos_token_id = end_token_ids[0]
        self.bos_token_id = None

    def __call__(self, text: bytes) -> Sequence[int]:
        return [self._byte_ids[byte] for byte in text]


def serve() -> None:
    setup = json.loads(_read())
    resource.setrlimit(resource.RLIMIT_AS, (setup["max_memory_bytes"],) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limits = LLParserLimits(**setup["limits"])
    controls = {int(token_id): text for token_id, text in setup["controls"].items()}
    vocabulary = _BareVocabulary(setup["num_tokens"], controls, setup["end_token_ids"])
    tokenizer = LLTokenizer(
        TokenizerWrapper(vocabulary), n_vocab=setup["num_tokens"], eos_token=setup["end_token_ids"], slices=[]
    )
    end_bits = sum(1 << token_id for token_id in set(setup["end_token_ids"]))

    def check(grammar: str) -> str:
        matcher = LLMatcher(tokenizer, grammar, log_level=0, limits=limits)
        began_s = time.process_time()
        walk(matcher, end_bits)
        if time.process_time() - began_s > setup["max_walk_s"]:
            return f"-{setup['too_costly']}"
        return f"-{matcher.get_error()}" if matcher.is_error() else ""

    while True:
        question = _read().decode()
        used = resource.getrusage(resource.RUSAGE_SELF)
        cpu_s = int(used.ru_utime + used.ru_stime) + setup["max_cpu_s"] + 1
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, resource.getrlimit(resource.RLIMIT_CPU)[1]))
        answer = convert(question[1:]) if question[0] == "b" else check(question[1:])
        # Memory that was in use once may be in pieces: the next one is to have all of it.
        is_worn = _peak_bytes() > setup["max_memory_bytes"] // 4
        data = ("w" if is_worn else " ").encode() + answer.encode("utf-8", "replace")
        sys.stdout.buffer.write(_LENGTH.pack(len(data)) + data)
        sys.stdout.buffer.flush()


def _peak_bytes() -> int:
    """The most memory that this program has used. What getrusage tells of it begins, on Linux, with that
    of the process it was started from, which has a model in it."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def walk(matcher: LLMatcher, end_bits: int) -> None:
    """A few steps, which show what it costs to go on: some grammars are built at once, and only then grow."""
    for _ in range(NUM_STEPS):
        if matcher.is_error() or matcher.is_stopped():
            return
        allowed = int.from_bytes(matcher.compute_bitmask(), "little") & ~end_bits
        if not allowed or not matcher.consume_token((allowed & -allowed).bit_length() - 1):
            return


def convert(text: str) -> str:
    """Its time may rise exponentially with the number of rules."""
    try:
        return "+" + any_to_lark(text)
    except Exception as problem:
        return f"-It is not a grammar in GBNF: {problem}"


def _read() -> bytes:
    header = sys.stdin.buffer.read(_LENGTH.size)
    if len(header) < _LENGTH.size:
        sys.exit(0)
    return sys.stdin.buffer.read(_LENGTH.unpack(header)[0])


if __name__ == "__main__":
    threading.stack_size(int(sys.argv[1]))
    thread = threading.Thread(target=serve)
    thread.start()
    thread.join()
