"""Names of pieces: equal for equal beginnings, and for nothing else."""

from __future__ import annotations

import numpy as np

from inference.engine.piece_keys import PieceKeys

TOKENS = np.arange(100, 120, dtype=np.int32)


def keys(*, secret: bytes = b"s", num_tokens: int = 4) -> PieceKeys:
    return PieceKeys(secret=secret, num_tokens=num_tokens)


def test_only_whole_pieces_have_a_key() -> None:
    assert [len(keys().chain("", TOKENS[:count])) for count in (0, 3, 4, 7, 8, 20)] == [0, 0, 1, 1, 2, 5]


def test_a_longer_prompt_has_the_keys_of_its_beginning() -> None:
    assert keys().chain("a", TOKENS)[:3] == keys().chain("a", TOKENS[:13])


def test_a_token_changes_its_piece_and_all_behind_it() -> None:
    other = TOKENS.copy()
    other[9] += 1
    one, two = keys().chain("a", TOKENS), keys().chain("a", other)
    assert [first == second for first, second in zip(one, two, strict=True)] == [True, True] + [False] * 3


def test_equal_pieces_at_other_places_have_other_keys() -> None:
    assert len(set(keys().chain("a", np.zeros(40, dtype=np.int32)))) == 10


def test_namespaces_secrets_and_sizes_have_nothing_in_common() -> None:
    chains = [
        keys().chain("a", TOKENS),
        keys().chain("b", TOKENS),
        keys().chain("", TOKENS),
        keys(secret=b"t").chain("a", TOKENS),
        keys(num_tokens=5).chain("a", TOKENS),
    ]
    assert len({key for chain in chains for key in chain}) == sum(map(len, chains))
