from __future__ import annotations

from inference.domain.media_run import MediaRun, media_token_ids


def test_ids_are_below_zero_and_fit_32_bits() -> None:
    ids = media_token_ids(b"a", 0, 5000)
    assert len(ids) == 5000
    assert -(2**31) <= min(ids) <= max(ids) < 0
    assert len(set(ids)) > 4990


def test_the_same_picture_has_the_same_ids_and_each_other_one_its_own() -> None:
    assert media_token_ids(b"a", 0, 16) == media_token_ids(b"a", 0, 16)
    assert media_token_ids(b"a", 0, 16)[:8] == media_token_ids(b"a", 0, 8)
    assert not set(media_token_ids(b"a", 0, 16)) & set(media_token_ids(b"b", 0, 16))
    assert not set(media_token_ids(b"a", 0, 16)) & set(media_token_ids(b"a", 1, 16))


def test_a_run_ends_behind_its_last_row() -> None:
    run = MediaRun(3, [[1.0], [2.0]])  # type: ignore[arg-type]  # anything with a length
    assert (run.start, run.num_tokens, run.end) == (3, 2, 5)
