"""Keys: their form, their checksum, and every header that is not one."""

from __future__ import annotations

import hashlib
import re
import time
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounts import keys

KEY = keys.mint().plaintext
CHARACTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def number_of(digits: str) -> int:
    number = 0
    for digit in digits:
        number = number * 62 + CHARACTERS.index(digit)
    return number


class TestForm:
    def test_a_key_is_a_prefix_43_secret_characters_and_a_crc32_of_both(self) -> None:
        assert re.fullmatch(r"sk-skippy-[0-9A-Za-z]{49}", KEY)
        assert number_of(KEY[10:53]) < 2**256
        assert number_of(KEY[53:]) == zlib.crc32(KEY[:53].encode())

    def test_the_form_does_not_change_between_versions(self) -> None:
        # Computed apart from this code, by a bitwise CRC-32 in Perl.
        assert keys.is_well_formed("sk-skippy-" + "0" * 43 + "44033X")
        assert keys.is_well_formed("sk-skippy-" + ("Abc123XYZ9" * 5)[:43] + "3Md8Mz")

    def test_all_256_bits_are_used(self) -> None:
        secrets = [number_of(keys.mint().plaintext[10:53]) for _ in range(64)]
        assert len(set(secrets)) == 64
        ones = zeros = 0
        for secret in secrets:
            ones |= secret
            zeros |= ~secret
        # Each bit fails to take both values with probability 2^-63.
        assert ones == 2**256 - 1
        assert zeros & (2**256 - 1) == 2**256 - 1

    def test_what_is_stored_and_shown(self) -> None:
        minted = keys.mint()
        assert minted.digest == hashlib.sha256(minted.plaintext.encode()).hexdigest()
        assert minted.visible_prefix == minted.plaintext[:16]
        assert minted.last4 == minted.plaintext[-4:]

    def test_no_way_of_printing_a_minted_key_shows_it(self) -> None:
        minted = keys.mint()
        secret = minted.plaintext[16:-4]
        for text in (repr(minted), str(minted), f"{minted}", f"{[minted]}", f"{minted} {minted!r}"):
            assert secret not in text
            assert minted.visible_prefix in text


class TestWellFormed:
    @given(
        place=st.integers(0, keys.KEY_LENGTH - 1),
        other=st.characters() | st.sampled_from(CHARACTERS + "-"),
    )
    def test_any_change_of_one_character_is_refused(self, place: int, other: str) -> None:
        changed = KEY[:place] + other + KEY[place + 1 :]
        assert keys.is_well_formed(changed) is (changed == KEY)

    @given(place=st.integers(10, keys.KEY_LENGTH - 2))
    def test_two_neighbours_that_changed_places_are_refused(self, place: int) -> None:
        changed = KEY[:place] + KEY[place + 1] + KEY[place] + KEY[place + 2 :]
        assert keys.is_well_formed(changed) is (changed == KEY)

    @given(st.text(max_size=80) | st.from_regex(r"sk-skippy-[0-9A-Za-z]{49}", fullmatch=True))
    def test_other_text_is_refused(self, text: str) -> None:
        # 1 in 2^32 of the texts of the second kind has the right checksum.
        assert not keys.is_well_formed(text)

    @pytest.mark.parametrize(
        "text", ["", KEY[:-1], KEY + "0", KEY + "\n", " " + KEY, KEY.upper(), "\ud83d" * 59]
    )
    def test_what_is_too_short_too_long_or_padded_is_refused(self, text: str) -> None:
        assert not keys.is_well_formed(text)

    def test_a_digest_is_made_of_any_text(self) -> None:
        assert len(keys.digest_of("\ud83d\x00é")) == 64


class TestReadBearer:
    @pytest.mark.parametrize("scheme", [b"Bearer", b"bearer", b"BEARER", b"bEaReR"])
    @pytest.mark.parametrize("space", [b" ", b"   ", b"\t"])
    def test_the_scheme_is_read_in_any_case(self, scheme: bytes, space: bytes) -> None:
        assert keys.read_bearer(scheme + space + KEY.encode()) == KEY

    def test_white_space_around_the_value_is_not_part_of_it(self) -> None:
        assert keys.read_bearer(b"  Bearer " + KEY.encode() + b" \t") == KEY

    @pytest.mark.parametrize(
        "header",
        [
            None,
            b"",
            b" ",
            b"Bearer",
            b"Bearer ",
            b"Bearer" + KEY.encode(),
            b"bearer " + KEY[:-1].encode() + (b"x" if KEY[-1] != "x" else b"y"),
            b"Basic " + KEY.encode(),
            KEY.encode(),
            b"Bearer " + KEY.encode() + b" extra",
            b"Bearer " + KEY.encode() + b"," + KEY.encode(),
            b"Bearer " + KEY.encode() + b" " + KEY.encode(),
            b"Bearer Bearer " + KEY.encode(),
            b'Bearer "' + KEY.encode() + b'"',
            b"Bearer token=" + KEY.encode(),
            b"Bearer " + KEY.upper().encode(),
            b"Bearer " + b"k" * 100_000,
            b"Bearer " + b" " * 100_000 + KEY.encode(),
            b"Bearer k\xe9y",
            "Bearer kéy".encode(),
            b"Bearer " + KEY.encode() + b"\x00",
            b"Bearer\x00" + KEY.encode(),
            b"Bearer " + KEY.encode() + b"\r\nX-Other: 1",
            b"Bearer " + KEY.encode() + b"\n",
            b"Bearer\xa0" + KEY.encode(),
            b"B\xc4\xb1earer " + KEY.encode(),
            b"Bearer \xef\xbc\xb3" + KEY[1:].encode(),
            b"Bearer null",
            b"Bearer undefined",
            b"Bearer sk-" + b"a" * 48,
        ],
        ids=lambda header: repr(header)[:30],
    )
    def test_anything_else_is_no_key(self, header: bytes | None) -> None:
        assert keys.read_bearer(header) is None

    @given(st.binary(max_size=300))
    def test_no_bytes_raise(self, header: bytes) -> None:
        assert keys.read_bearer(header) is None

    def test_a_long_header_costs_no_more_than_a_short_one(self) -> None:
        header = b"Bearer " + b"k" * 1_000_000
        start = time.perf_counter()
        for _ in range(10_000):
            keys.read_bearer(header)
        # Reading them all would be 10 GB; refusing them unread is a few milliseconds.
        assert time.perf_counter() - start < 1.0


class TestReadKeyOf:
    BEARER = (b"authorization", b"Bearer " + KEY.encode())
    OTHER = keys.mint().plaintext.encode()

    def test_either_header_is_read(self) -> None:
        headers = [(b"host", b"x"), self.BEARER, (b"accept", b"*/*")]
        assert keys.read_key_of(headers) == KEY
        assert keys.read_key_of([(b"x-api-key", KEY.encode())]) == KEY
        assert keys.read_key_of([(b"x-api-key", b" %s\t" % KEY.encode())]) == KEY

    def test_none_and_two_of_a_kind_are_refused(self) -> None:
        assert keys.read_key_of([]) is None
        assert keys.read_key_of([self.BEARER, self.BEARER]) is None
        assert keys.read_key_of([self.BEARER, (b"authorization", b"Basic eDp5")]) is None
        assert keys.read_key_of([(b"x-api-key", KEY.encode())] * 2) is None

    def test_both_headers_must_show_one_key(self) -> None:
        assert keys.read_key_of([self.BEARER, (b"x-api-key", KEY.encode())]) == KEY
        for value in (self.OTHER, b"", b"nonsense"):
            assert keys.read_key_of([self.BEARER, (b"x-api-key", value)]) is None
        assert keys.read_key_of([(b"authorization", b"Basic eDp5"), (b"x-api-key", KEY.encode())]) is None

    @given(st.binary(max_size=300))
    def test_no_bytes_raise(self, header: bytes) -> None:
        assert keys.read_api_key(header) is None
        assert keys.read_api_key(b"Bearer " + KEY.encode()) is None
