"""Tokens that may come: what llguidance makes of a constraint, for one model's vocabulary.

llguidance never raises: it falls into an error state, in which its masks mean nothing. Here every answer
of it is followed by the question whether it is still sound, so that nothing fails open.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper
from numpy.typing import NDArray

from inference.domain.constraint import ConstraintRefused, ConstraintSpec
from inference.domain.errors import ServiceUnavailable, SkippyError
from inference.domain.tokenizer import Tokenizer
from inference.engine.llama.constraint_grammar import GrammarWriter
from inference.engine.llama.grammar_trial import MAX_CPU_S, STACK_BYTES, TOO_COSTLY, GrammarTrial, message_of

logger = logging.getLogger(__name__)

# Beside llguidance's own defaults: what one mask may cost (20,000 items are about 20 ms), and memory
# (1 to 2 kB a state). Its messages do not repeat grammars, which belong to callers.
_LIMITS: dict[str, Any] = {
    "step_max_items": 20_000,
    "max_lexer_states": 50_000,
    "max_grammar_size": 250_000,
    "verbose_errors": False,
}
MAX_CACHED = 64
# CPU time of a mask, in which the engine thread does nothing else. A first one that costs more is
# refused; later, this much a token is on the house, and who is this far beyond it has failed.
MAX_FIRST_MASK_S = 0.25
FREE_STEP_S = 0.005
MAX_DEBT_S = 1.0
# Not so in the middle of words: those of SentencePiece begin a text with a space.
_BEFORE = "\x02"


class ConstraintFailed(RuntimeError):
    """A constraint that cannot be kept any more; its sequence fails."""


class LlamaConstraintState:
    """How far one sequence has come: a ConstraintState over an LLMatcher."""

    __slots__ = (
        "_debt_s",
        "_end_token_ids",
        "_ends",
        "_is_ended",
        "_matcher",
        "_max_debt_s",
        "_num_tokens",
        "_words",
    )

    def __init__(
        self, matcher: LLMatcher, num_tokens: int, end_token_ids: frozenset[int], max_debt_s: float
    ) -> None:
        self._matcher = matcher
        self._max_debt_s = max_debt_s
        self._num_tokens = num_tokens
        self._end_token_ids = end_token_ids
        self._ends = sorted(end_token_ids)
        self._words = np.zeros((num_tokens + 31) // 32, dtype=np.uint32)
        self._is_ended = False
        self._debt_s = 0.0
        self._check()
        self._is_ended = matcher.is_stopped()

    @property
    def is_ended(self) -> bool:
        return self._is_ended

    def accepts(self, token_id: int) -> bool:
        if token_id in self._end_token_ids:
            return self._is_ended or self._matcher.is_accepting()
        return not self._is_ended and self._matcher.validate_tokens([token_id]) == 1

    def mask(self) -> NDArray[np.bool_]:
        began_s = time.thread_time()
        self._matcher.unsafe_compute_mask_ptr(self._words.ctypes.data, self._words.nbytes)
        self._check()
        self._spend(time.thread_time() - began_s)
        bits = np.unpackbits(self._words.view(np.uint8), bitorder="little", count=self._num_tokens)
        mask = bits.view(np.bool_)
        # A grammar may name an end of the answer where it goes on afterwards; the answer does not.
        mask[self._ends] = False
        may_end = self._is_ended or self._matcher.is_accepting()
        if may_end and not mask.any():
            self._is_ended = True
        mask[self._ends] = may_end
        return mask

    def advance(self, token_id: int) -> None:
        if token_id in self._end_token_ids:
            self._is_ended = True
            return
        began_s = time.thread_time()
        is_taken = self._matcher.consume_token(token_id)
        if not is_taken:
            raise ConstraintFailed(f"a token was not taken: {self._matcher.stop_reason()}")
        self._check()
        self._is_ended = self._matcher.is_stopped()
        self._debt_s = max(0.0, self._debt_s - FREE_STEP_S)
        self._spend(time.thread_time() - began_s)

    def forced_tokens(self, max_tokens: int) -> Sequence[int]:
        if self._is_ended or max_tokens <= 0:
            return ()
        began_s = time.thread_time()
        tokens = self._matcher.compute_ff_tokens()[:max_tokens]
        self._check()
        self._spend(time.thread_time() - began_s)
        return tokens

    def _spend(self, used_s: float) -> None:
        self._debt_s += used_s
        if self._debt_s > self._max_debt_s:
            raise ConstraintFailed("masks cost too much")

    def _check(self) -> None:
        if self._matcher.is_error():
            raise ConstraintFailed(f"llguidance has stopped: {self._matcher.stop_reason()}")


class LlamaConstraint:
    """A compiled constraint, to be begun as often as one likes: an OutputConstraint."""

    def __init__(
        self, matcher: LLMatcher, num_tokens: int, end_token_ids: frozenset[int], max_debt_s: float
    ) -> None:
        # At its beginning, and stays there. Copied by one thread at a time.
        self._matcher = matcher
        self._lock = threading.Lock()
        self._num_tokens = num_tokens
        self._end_token_ids = end_token_ids
        self._max_debt_s = max_debt_s

    def begin(self) -> LlamaConstraintState:
        """Costs about 50 µs."""
        with self._lock:
            matcher = self._matcher.deep_copy()
        return LlamaConstraintState(matcher, self._num_tokens, self._end_token_ids, self._max_debt_s)


class LlamaConstraintCompiler:
    """Implements ConstraintCompiler for a loaded model's vocabulary. The first constraint takes 0.2 s longer
    for 50,000 tokens; `close()` ends the process that tries grammars."""

    def __init__(
        self, tokenizer: Tokenizer, *, max_trial_cpu_s: int = MAX_CPU_S, max_debt_s: float = MAX_DEBT_S
    ) -> None:
        self._tokenizer = tokenizer
        self._max_debt_s = max_debt_s
        self._end_token_ids = frozenset(filter(tokenizer.is_end_of_generation, range(tokenizer.num_tokens)))
        controls = tokenizer.control_texts
        self._control_tokens = {text: token_id for token_id, text in controls.items()}
        self._native: LLTokenizer | None = None
        self._limits = LLParserLimits(**_LIMITS)
        self._trial = GrammarTrial(
            num_tokens=tokenizer.num_tokens,
            control_texts=controls,
            end_token_ids=sorted(self._end_token_ids),
            limits=_LIMITS,
            max_cpu_s=max_trial_cpu_s,
        )
        self._thread = _deep_thread()
        self._lock = threading.Lock()
        self._compiled: OrderedDict[bytes, LlamaConstraint] = OrderedDict()

    def compile(self, spec: ConstraintSpec) -> LlamaConstraint:
        """Raises ConstraintRefused, with llguidance's words where it has some."""
        if not self._end_token_ids:
            raise ConstraintRefused("This model has no token that ends an answer.")
        try:
            writer = GrammarWriter(self._control_tokens, self._end_token_ids, lark_of=self._trial.lark_of)
            grammar = writer.write(spec)
        except RecursionError:
            raise ConstraintRefused("It is nested too deep.") from None
        key = hashlib.sha256(grammar.encode()).digest()
        with self._lock:
            found = self._compiled.get(key)
            if found is not None:
                self._compiled.move_to_end(key)
                return found
        try:
            work = self._thread.submit(self._compile, grammar)
        except RuntimeError:  # it was shut down
            raise ServiceUnavailable("The service is shutting down.") from None
        constraint = work.result()
        with self._lock:
            self._compiled[key] = constraint
            while len(self._compiled) > MAX_CACHED:
                self._compiled.popitem(last=False)
        return constraint

    def _compile(self, grammar: str) -> LlamaConstraint:
        self._trial.check(grammar)
        try:
            return self._compile_natively(grammar)
        except Exception:
            raise
        except BaseException:  # a panic of the native library, which is no Exception
            logger.warning("a grammar could not be compiled")
            raise ConstraintRefused(TOO_COSTLY) from None

    def _compile_natively(self, grammar: str) -> LlamaConstraint:
        matcher = LLMatcher(self._vocabulary(), grammar, log_level=0, limits=self._limits)
        began_s = time.thread_time()
        if not matcher.is_error():
            # Also what every sequence would have to compute first.
            matcher.compute_bitmask()
        if matcher.is_error():
            raise ConstraintRefused(message_of(matcher.get_error()))
        if time.thread_time() - began_s > MAX_FIRST_MASK_S:
            raise ConstraintRefused(TOO_COSTLY)
        return LlamaConstraint(matcher, self._tokenizer.num_tokens, self._end_token_ids, self._max_debt_s)

    def _vocabulary(self) -> LLTokenizer:
        """Made when it is first needed, on the one thread that compiles: for 50,000 tokens llguidance keeps
        the interpreter for 0.13 s, in which all streams of the process stand still, also those of other
        models while this one loads."""
        if self._native is None:
            self._native = LLTokenizer(
                TokenizerWrapper(_Vocabulary(self._tokenizer, min(self._end_token_ids))),
                n_vocab=self._tokenizer.num_tokens,
                eos_token=sorted(self._end_token_ids),
            )
        return self._native

    def close(self) -> None:
        """What is compiled stays good; nothing more is compiled. Later calls do nothing."""
        self._trial.close()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def __repr__(self) -> str:
        return f"<LlamaConstraintCompiler {len(self._compiled)} cached>"


def _deep_thread() -> ThreadPoolExecutor:
    """One thread whose stack holds whatever went through the trial: more than that had, and reserved only."""
    before = threading.stack_size(STACK_BYTES + 64 * 1024 * 1024)
    try:
        pool = ThreadPoolExecutor(1, thread_name_prefix="constraint")
        pool.submit(int).result()
    finally:
        threading.stack_size(before)
    return pool


class _Vocabulary:
    """What llguidance asks of a tokenizer. Tokens that add nothing to the text are marked with a byte that
    no text has, so that text can never name them."""

    def __init__(self, tokenizer: Tokenizer, end_token_id: int) -> None:
        controls = tokenizer.control_texts
        self._tokenizer = tokenizer
        self.tokens = [
            b"\xff" + controls[token_id].encode() if token_id in controls else piece
            for token_id, piece in enumerate(tokenizer.pieces)
        ]
        # The first token of each text: there are doubles.
        self._ids = {piece: token_id for token_id, piece in reversed([*enumerate(self.tokens)]) if piece}
        self._max_piece_bytes = max(map(len, self._ids))
        self.special_token_ids = sorted(controls)
        self.eos_token_id = end_token_id
        self.bos_token_id = None

    def __call__(self, text: bytes) -> list[int]:
        """How the model would write a text that is forced; never fewer bytes, or nothing could follow."""
        for before in ("", _BEFORE):
            plain = before + text.decode("utf-8", "replace")
            try:
                token_ids = self._tokenizer.tokenize(plain, add_special=False, parse_special=False)
            except SkippyError:  # too many control texts in it; nothing may come through native code
                break
            pieces = [self.tokens[one] for one in token_ids]
            for begin in range(len(token_ids)):
                if b"".join(pieces[begin:]) == text:
                    return token_ids[begin:]
        return self._longest_pieces(text)

    def _longest_pieces(self, text: bytes) -> list[int]:
        token_ids = []
        begin = 0
        while begin < len(text):
            lengths = range(min(self._max_piece_bytes, len(text) - begin), 0, -1)
            pieces = (text[begin : begin + length] for length in lengths)
            piece = next((one for one in pieces if one in self._ids), b"")
            if not piece:
                break
            token_ids.append(self._ids[piece])
            begin += len(piece)
        return token_ids
