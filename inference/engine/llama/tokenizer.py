"""A model's vocabulary, as tables, and llama.cpp's tokenizer behind them."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import llama_cpp
import numpy as np

from inference.domain.embeddings import PairMarks
from inference.domain.errors import InvalidRequest
from inference.domain.tokenizer import InfillTokens
from inference.engine.llama.library import fast_function
from inference.engine.llama.lifetime import NativeLifetime
from inference.engine.llama.text_segments import WordSegments, cut_behind_markers, cut_inside

_INT32 = ctypes.POINTER(ctypes.c_int32)
# Longest piece that is read in one go; llama.cpp says how long a longer one is.
_PIECE_BYTES = 256
# Tokens that llama.cpp looks for before it splits text into words (llama-vocab.cpp,
# tokenizer_st_partition): control tokens only with parse_special, user-defined ones always.
_CONTROL_ATTRIBUTES = llama_cpp.LLAMA_TOKEN_ATTR_CONTROL | llama_cpp.LLAMA_TOKEN_ATTR_UNKNOWN
_USER_DEFINED = llama_cpp.LLAMA_TOKEN_ATTR_USER_DEFINED
# Spaces as vocabularies write them; tokens of these alone say nothing to a model.
_SPACES = " \t\r\n▁"
# Vocabularies that may drop text (accents, repeated spaces), so that bytes bound nothing.
_NORMALIZING_TYPES = (llama_cpp.LLAMA_VOCAB_TYPE_WPM, llama_cpp.LLAMA_VOCAB_TYPE_UGM)
_MAX_TEXT_BYTES = 2**31 - 64
# Each piece costs a regular expression's compilation, 0.3 ms. Nobody writes a thousand role markers.
MAX_PLAIN_PIECES = 2000


class LlamaTokenizer:
    """Text to token ids and back, for one loaded model. Implements domain.tokenizer.Tokenizer.

    Thread-safe: llama.cpp's tokenizer is, the tables never change, and `lifetime` keeps the
    vocabulary while a call is under way (after it is closed, `tokenize` raises ServiceUnavailable).
    Time and C stack are bounded by the length of the text, whatever is in it.
    """

    def __init__(self, vocabulary: Any, lifetime: NativeLifetime) -> None:
        self._vocabulary = vocabulary
        self._lifetime = lifetime
        self._num_tokens: int = llama_cpp.llama_vocab_n_tokens(vocabulary)
        self._pieces = self._read_pieces()
        attributes = self._read_attributes()
        self._end_token_ids = self._read_end_token_ids()
        controls = self._read_texts(attributes, _CONTROL_ATTRIBUTES)
        has_control = [token_id for token_id, one in enumerate(attributes) if one & _CONTROL_ATTRIBUTES]
        defined = self._read_texts(attributes, _USER_DEFINED)
        self._control_texts = controls
        self._user_defined_texts = tuple(defined.values())
        self._all_texts = (*controls.values(), *self._user_defined_texts)
        # Where a family marks its roles as user-defined (<｜User｜>), plain text must not hold them.
        self._markers = {token_id: text for token_id, text in defined.items() if text.strip(_SPACES)}
        self._special_texts = tuple(
            dict.fromkeys(text for text in (*controls.values(), *self._markers.values()) if text)
        )
        self._segments = WordSegments(self._all_texts)
        vocabulary_type = llama_cpp.llama_vocab_type(vocabulary)
        self._is_bpe = vocabulary_type == llama_cpp.LLAMA_VOCAB_TYPE_BPE
        self._is_spm = vocabulary_type == llama_cpp.LLAMA_VOCAB_TYPE_SPM
        self.control_token_ids = self._end_token_ids.union(has_control, self._markers if self._is_bpe else ())
        """What plain text never holds, and no part of an answer that we put in ourselves may hold."""
        self._max_piece_bytes = max(
            [len(piece) for piece in self._pieces] + [len(text.encode()) for text in self._special_texts]
        )
        if vocabulary_type in _NORMALIZING_TYPES:
            self._max_piece_bytes = sys.maxsize
        bos, eos = llama_cpp.llama_vocab_bos(vocabulary), llama_cpp.llama_vocab_eos(vocabulary)
        self._first_ids = [bos] if llama_cpp.llama_vocab_get_add_bos(vocabulary) and bos >= 0 else []
        self._last_ids = [eos] if llama_cpp.llama_vocab_get_add_eos(vocabulary) and eos >= 0 else []
        self.pair_marks = _pair_marks(vocabulary)
        self.infill = self._read_infill()
        self.bos_text = self._text_of(bos)
        self.eos_text = self._text_of(eos)

    @property
    def pieces(self) -> Sequence[bytes]:
        return self._pieces

    @property
    def special_texts(self) -> Sequence[str]:
        return self._special_texts

    @property
    def control_texts(self) -> Mapping[int, str]:
        return self._control_texts

    @property
    def max_piece_bytes(self) -> int:
        return self._max_piece_bytes

    @property
    def num_tokens(self) -> int:
        return self._num_tokens

    @property
    def end_token_ids(self) -> frozenset[int]:
        """Every token with which an answer may end (EOS, end of turn, …)."""
        return self._end_token_ids

    def is_end_of_generation(self, token_id: int) -> bool:
        return token_id in self._end_token_ids

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Token ids of `text`. A lone surrogate, which UTF-8 cannot hold, is read as "?".

        Without `parse_special` none of `special_texts` becomes its token in a byte-pair vocabulary;
        SentencePiece ones still read those that they define for text (`<b>`), which no family uses
        for its roles. Raises InvalidRequest for text with thousands of them.
        """
        pieces = self._cut(text, parse_special)
        if len(pieces) == 1:
            ids = self._tokenize(text, add_special, parse_special)
        else:
            ids = self._tokenize_all(pieces, add_special, parse_special)
        if self._is_bpe and not parse_special and not self._markers.keys().isdisjoint(ids):
            return self._tokenize_without_markers(pieces, ids, add_special)
        return ids

    def _cut(self, text: str, parse_special: bool) -> list[str]:
        if self._is_bpe:
            return self._segments.cut(text)
        if self._is_spm:
            return cut_behind_markers(text, self._all_texts if parse_special else self._user_defined_texts)
        return [text]

    def _tokenize_without_markers(self, pieces: list[str], ids: list[int], add_special: bool) -> list[int]:
        # Cutting one apart may bare another that it overlapped: each round finds some, or is the last.
        while found := self._markers.keys() & ids:
            texts = [self._markers[token_id] for token_id in sorted(found)]
            pieces = [part for piece in pieces for part in cut_inside(piece, texts)]
            if len(pieces) > MAX_PLAIN_PIECES:
                raise InvalidRequest("The text holds too many of the control texts of this model.")
            ids = self._tokenize_all(pieces, False, False)
        return [*self._first_ids, *ids, *self._last_ids] if add_special else ids

    def _tokenize_all(self, pieces: list[str], add_special: bool, parse_special: bool) -> list[int]:
        ids = list(self._first_ids) if add_special else []
        for piece in pieces:
            ids += self._tokenize(piece, False, parse_special)
        return ids + self._last_ids if add_special else ids

    def _tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]:
        data = text.encode("utf-8", "replace")
        if len(data) > _MAX_TEXT_BYTES:
            raise ValueError("the text is too long for a tokenizer")
        # No text has more tokens than bytes, but for a leading space, BOS and EOS.
        capacity = len(data) + 8
        with self._lifetime:
            while True:
                ids = np.empty(capacity, dtype=np.int32)
                num_ids: int = llama_cpp.llama_tokenize(
                    self._vocabulary,
                    data,
                    len(data),
                    ids.ctypes.data_as(_INT32),
                    capacity,
                    add_special,
                    parse_special,
                )
                if num_ids >= 0:
                    result: list[int] = ids[:num_ids].tolist()
                    return result
                if -num_ids <= capacity:
                    raise ValueError("the text is too long for a tokenizer")
                capacity = -num_ids

    # -- reading the vocabulary once ------------------------------------------------------------

    def _read_pieces(self) -> tuple[bytes, ...]:
        to_piece = fast_function(
            "llama_token_to_piece",
            [
                ctypes.c_void_p,
                ctypes.c_int32,
                ctypes.c_char_p,
                ctypes.c_int32,
                ctypes.c_int32,
                ctypes.c_bool,
            ],
            ctypes.c_int32,
        )
        buffer = ctypes.create_string_buffer(_PIECE_BYTES)
        view = memoryview(buffer)
        vocabulary = self._vocabulary
        pieces = []
        for token_id in range(self._num_tokens):
            length = to_piece(vocabulary, token_id, buffer, _PIECE_BYTES, 0, False)
            if length < 0:
                long_buffer = ctypes.create_string_buffer(-length)
                length = to_piece(vocabulary, token_id, long_buffer, -length, 0, False)
                pieces.append(long_buffer.raw[: max(length, 0)])
            else:
                pieces.append(bytes(view[:length]))
        return tuple(pieces)

    def _read_attributes(self) -> list[int]:
        get_attribute = fast_function("llama_vocab_get_attr", [ctypes.c_void_p, ctypes.c_int32], ctypes.c_int)
        return [get_attribute(self._vocabulary, token_id) for token_id in range(self._num_tokens)]

    def _read_end_token_ids(self) -> frozenset[int]:
        is_end = fast_function("llama_vocab_is_eog", [ctypes.c_void_p, ctypes.c_int32], ctypes.c_bool)
        return frozenset([one for one in range(self._num_tokens) if is_end(self._vocabulary, one)])

    def _read_texts(self, attributes: list[int], wanted: int) -> dict[int, str]:
        texts = {one: self._text_of(one) for one, attribute in enumerate(attributes) if attribute & wanted}
        return {token_id: text for token_id, text in texts.items() if text}

    def _read_infill(self) -> InfillTokens | None:
        prefix = llama_cpp.llama_vocab_fim_pre(self._vocabulary)
        suffix = llama_cpp.llama_vocab_fim_suf(self._vocabulary)
        middle = llama_cpp.llama_vocab_fim_mid(self._vocabulary)
        if prefix < 0 or suffix < 0:
            return None
        return InfillTokens(prefix, suffix, None if middle < 0 else middle, tuple(self._first_ids))

    def _text_of(self, token_id: int) -> str:
        if token_id < 0:
            return ""
        text: bytes | None = llama_cpp.llama_vocab_get_text(self._vocabulary, token_id)
        return (text or b"").decode("utf-8", "replace")

    def __repr__(self) -> str:
        return f"<LlamaTokenizer {self._num_tokens} tokens>"


def _pair_marks(vocabulary: Any) -> PairMarks:
    """As llama-server puts query and document together (server-common.cpp, format_prompt_rerank)."""
    bos, sep = llama_cpp.llama_vocab_bos(vocabulary), llama_cpp.llama_vocab_sep(vocabulary)
    eos = llama_cpp.llama_vocab_eos(vocabulary)
    if eos < 0:
        eos = sep
    first = [bos] if llama_cpp.llama_vocab_get_add_bos(vocabulary) else []
    last = [eos] if llama_cpp.llama_vocab_get_add_eos(vocabulary) else []
    between = [sep] if llama_cpp.llama_vocab_get_add_sep(vocabulary) else []
    begin, middle, end = (tuple([one for one in ids if one >= 0]) for ids in (first, [*last, *between], last))
    return PairMarks(begin, middle, end)
