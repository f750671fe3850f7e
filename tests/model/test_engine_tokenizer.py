from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from inference.domain.errors import InvalidRequest
from inference.engine.config import EngineConfig
from inference.engine.llama import LlamaModel, LlamaTokenizer

TEXTS = [
    "Hello world",
    "",
    " leading and trailing ",
    "naïve 你好 😸👩‍👩‍👧",
    "line\n\n\tindented\r\n",
    "x = {'a': [1, 22, 333]}  # comment",
    "nul \x00 inside",
]


@pytest.fixture(scope="module")
def tokenizer(tiny_model: LlamaModel) -> LlamaTokenizer:
    return tiny_model.tokenizer


def plain(tokenizer: LlamaTokenizer, text: str) -> list[int]:
    return tokenizer.tokenize(text, add_special=False, parse_special=False)


@pytest.mark.parametrize("text", TEXTS)
def test_pieces_of_the_tokens_join_to_the_text(tokenizer: LlamaTokenizer, text: str) -> None:
    ids = plain(tokenizer, text)
    assert b"".join(tokenizer.pieces[one] for one in ids).decode() == text


def test_control_tokens_only_where_they_are_asked_for(tokenizer: LlamaTokenizer) -> None:
    text = "<|im_start|>user"
    read = tokenizer.tokenize(text, add_special=False, parse_special=True)
    assert read[0] == 1
    assert tokenizer.pieces[1] == b""
    assert 1 not in plain(tokenizer, text)
    assert set(tokenizer.special_texts) >= {"<|im_start|>", "<|im_end|>", "<|endoftext|>"}
    assert len(tokenizer.special_texts) == 17


def test_every_end_token_is_known(tokenizer: LlamaTokenizer) -> None:
    assert tokenizer.end_token_ids == {0, 2, 4}
    assert tokenizer.is_end_of_generation(2)
    assert not tokenizer.is_end_of_generation(1)


def test_bytes_bound_the_number_of_tokens(tokenizer: LlamaTokenizer) -> None:
    assert tokenizer.max_piece_bytes == 81
    for text in (" " * 5000, "\n" * 3000, "=" * 4000, "the " * 900):
        assert len(plain(tokenizer, text)) >= len(text.encode()) / tokenizer.max_piece_bytes


def test_a_lone_surrogate_is_read_as_a_question_mark(tokenizer: LlamaTokenizer) -> None:
    assert plain(tokenizer, "a\ud800b") == plain(tokenizer, "a?b")


def test_long_text_has_the_tokens_it_would_have_in_one_piece(tokenizer: LlamaTokenizer) -> None:
    source = Path(__file__).read_text() + "\n" + Path(subprocess.__file__).read_text()[:60_000]
    german = "Der Fluß fließt ins Meer, und das Meer wird nicht voll; 12345 mal. " * 300
    for text in (source, german, "word  " * 5000):
        whole = tokenizer._tokenize(text, False, False)
        assert plain(tokenizer, text) == whole
    parsed = "<|im_start|>user\nhow are you<|im_end|>\n" * 600
    whole = tokenizer._tokenize(parsed, False, True)
    assert tokenizer.tokenize(parsed, add_special=False, parse_special=True) == whole


def test_threads_may_tokenize_at_once(tokenizer: LlamaTokenizer) -> None:
    expected = [plain(tokenizer, text * 50) for text in TEXTS]
    found: list[list[list[int]]] = []
    threads = [
        threading.Thread(target=lambda: found.append([plain(tokenizer, text * 50) for text in TEXTS]))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


OVERFLOW = """
import sys, threading
from pathlib import Path
from inference.engine.config import EngineConfig
from inference.engine.llama import LlamaModel
threading.stack_size(2 * 1024 * 1024)
tokenizer = LlamaModel.load(Path(sys.argv[1]), EngineConfig()).tokenizer
def work():
    for character in "a !1\\n\\u4f60":
        ids = tokenizer.tokenize(character * 400_000, add_special=False, parse_special=False)
        assert b"".join(tokenizer.pieces[one] for one in ids).decode() == character * 400_000
    print("survived")
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


def test_unbroken_text_does_not_overflow_the_stack(other_family_path: Path) -> None:
    # With std::regex, 32 KiB of one letter would end the process.
    done = subprocess.run(
        [sys.executable, "-c", OVERFLOW, str(other_family_path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "survived\n"), done.stderr[-2000:]


def test_plain_text_holds_no_user_defined_markers(other_family_path: Path) -> None:
    # Some families mark their roles as user-defined tokens, which llama.cpp reads in any text.
    model = LlamaModel.load(other_family_path, EngineConfig())
    tokenizer = model.tokenizer
    attack = "a<|im_start|>b<|im_start|><repo_name><|im_start|>c" * 3
    ids = plain(tokenizer, attack)
    assert {1, 3}.isdisjoint(ids)
    assert b"".join(tokenizer.pieces[one] for one in ids).decode() == attack
    assert tokenizer.tokenize(attack, add_special=False, parse_special=True).count(1) == 9
    assert "<|im_start|>" in tokenizer.special_texts
    assert {1, 3}.isdisjoint(plain(tokenizer, attack * 20))
    with pytest.raises(InvalidRequest, match="too many"):
        plain(tokenizer, attack * 500)
    model.close()
