"""The other end of grammar_trial.py: a process that may die of a grammar.

Run as a script, without anything else of this package. Frames are a length (four bytes, little-endian)
and as many bytes, in both directions: first the vocabulary's size with its control and end tokens, then
grammars; the answer is empty for a good one, else llguidance's message.
"""

from __future__ import annotations

import json
import resource
import struct
import sys
import threading
from collections.abc import Sequence

from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper

_LENGTH = struct.Struct("<I")


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
    limits = LLParserLimits(**setup["limits"])
    controls = {int(token_id): text for token_id, text in setup["controls"].items()}
    vocabulary = _BareVocabulary(setup["num_tokens"], controls, setup["end_token_ids"])
    tokenizer = LLTokenizer(
        TokenizerWrapper(vocabulary), n_vocab=setup["num_tokens"], eos_token=setup["end_token_ids"], slices=[]
    )
    while True:
        grammar = _read().decode()
        used = resource.getrusage(resource.RUSAGE_SELF)
        cpu_s = int(used.ru_utime + used.ru_stime) + setup["max_cpu_s"] + 1
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, resource.getrlimit(resource.RLIMIT_CPU)[1]))
        matcher = LLMatcher(tokenizer, grammar, log_level=0, limits=limits)
        if not matcher.is_error():
            matcher.compute_bitmask()
        message = matcher.get_error().encode() if matcher.is_error() else b""
        sys.stdout.buffer.write(_LENGTH.pack(len(message)) + message)
        sys.stdout.buffer.flush()


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
