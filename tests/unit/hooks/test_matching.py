"""Words, addresses and numbers are found however they are written."""

from __future__ import annotations

import time
import unicodedata

import pytest

from hooks.contracts.actions import MaskKind, MaskText, TextTarget
from hooks.matching import MAX_MASKED_CHARS, MaskFailed, folded, has_word, mask_compiled, reading_of
from hooks.matching.masks import MAX_MATCHES
from hooks.matching.readings import _continues


def masked(text: str, *, is_json: bool = False, **members: object) -> str:
    action = MaskText((TextTarget.CONTENT,), **members)  # type: ignore[arg-type]
    return mask_compiled(action).masked(text, is_json=is_json)


@pytest.mark.parametrize(
    "written",
    [
        "bomb",
        "BOMB",
        "bOmB",
        "ｂｏｍｂ",
        "𝐛𝐨𝐦𝐛",
        "𝔹𝕆𝕄𝔹",
        "ⓑⓞⓜⓑ",
        "b\u200bo\u200cm\u200db",
        "b\u2060o\ufeffm\u00adb",
        "b\u034fomb",
        "b\ufe0fomb",
        "bo\U000e0041mb",
        "b\x00o\x07mb",
        "b\u0336o\u0336m\u0336b\u0336",
        "b\u20ddomb",
        "b\u202eomb",
    ],
)
def test_a_word_is_found_in_every_form(written):
    assert masked(f"a {written} here", words=("Bomb",)) == "a *** here"
    assert has_word(folded(f"a {written} here"), "BOMB")


@pytest.mark.parametrize("written", ["ﬁne", "FINE", "fi\u200bne"])
def test_ligatures_are_the_letters_that_they_are_made_of(written):
    assert masked(f"is {written}!", words=("fine",)) == "is ***!"


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("straße", "STRASSE"),
        ("STRASSE", "Straße"),
        ("istanbul", "İstanbul"),
        ("résumé", "re\u0301sume\u0301"),
    ],
)
def test_case_is_folded_as_unicode_folds_it(word, text):
    assert masked(text, words=(word,)) == "***"


@pytest.mark.parametrize("text", ["bombastic", "abomb", "bomb1", "résume", "bom b"])
def test_a_part_of_a_word_is_no_word(text):
    assert masked(text, words=("bomb", "resume")) == text


@pytest.mark.parametrize("text", ["bomb.", "(bomb)", "bomb-like", "bomb", "a_bomb", "bomb😀"])
def test_a_word_ends_where_no_letter_and_no_digit_follows(text):
    assert "bomb" not in masked(text, words=("bomb",))


def test_scripts_without_spaces_have_words_anywhere():
    assert masked("这是炸弹吗", words=("炸弹",)) == "这是***吗"
    assert masked("これは爆弾です", words=("爆弾",)) == "これは***です"


@pytest.mark.parametrize("text", ["credit card", "Credit  Card", "credit\n\tcard", "credit\u00a0card"])
def test_a_phrase_is_found_over_any_white_space(text):
    assert masked(f"my {text}!", words=("credit  card",)) == "my ***!"
    assert has_word(folded(text), "credit card")


def test_words_that_cannot_be_seen_match_nothing():
    assert masked("anything", words=("\u200b", "", " ")) == "anything"
    assert not has_word("anything", "\u200b")


def test_a_word_that_stands_behind_a_part_of_itself_is_found():
    assert masked("aab aa b", words=("a",)) == "aab aa b"
    assert masked("xa a", words=("a",)) == "xa ***"
    assert masked("x na na na", words=("na na",)) == "x ***"


@pytest.mark.parametrize(
    "address",
    [
        "joe@example.com",
        "j.o+e_1@mail.example.co.uk",
        "ＪＯＥ@ｅｘａｍｐｌｅ．ｃｏｍ",
        "joe@exam\u200bple.com",
        "jürgen@müller.de",
        "o'neil@a-b.org",
    ],
)
def test_addresses_are_found(address):
    assert masked(f"write to <{address}>, please.", kinds=(MaskKind.EMAIL,)) == "write to <***>, please."


@pytest.mark.parametrize("text", ["@ home", "a@b", "@user", "5 @ 3.50", "x@1.2", "user@", "a@b..c", "@@@@"])
def test_what_is_no_address_stays(text):
    assert masked(text, kinds=(MaskKind.EMAIL,)) == text


@pytest.mark.parametrize(
    "number",
    [
        "4111111111111111",
        "4111 1111 1111 1111",
        "4111-1111-1111-1111",
        "4111.1111.1111.1111",
        "3782 822463 10005",
        "5500 0055 5555 5559",
        "６０１１１１１１１１１１１１１７",
        "4111\u200b1111\u200b11111111",
        "4111\u00a01111\u20131111\u00a01111",
        "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
    ],
)
def test_card_numbers_are_found(number):
    assert masked(f"card {number}, thanks", kinds=(MaskKind.CARD_NUMBER,)) == "card ***, thanks"


@pytest.mark.parametrize(
    "text",
    [
        "4111111111111112",
        "1234567812345670",
        "41111111111111114111111111111111",
        "0000 0000 0000 0000",
        "+49 170 1234567",
        "411111111111",
        "4111  1111  1111  1111",
    ],
)
def test_other_numbers_stay(text):
    assert masked(text, kinds=(MaskKind.CARD_NUMBER,)) == text


def test_a_card_number_among_other_numbers_is_found():
    found = masked("12 4111 1111 1111 1111 99 2", kinds=(MaskKind.CARD_NUMBER,))

    assert "1111 1111 1111" not in found
    assert found.startswith("12 ***")


def test_patterns_see_through_width_and_not_through_case():
    pattern = (r"[A-Z]{2}-\d+",)

    assert masked("AB-12 ＡＢ-１２ A\u200bB-1\u200b2 ab-12", patterns=pattern) == "*** *** *** ab-12"


def test_a_pattern_that_matches_nothing_at_all_masks_nothing():
    assert masked("abc", patterns=("x*",)) == "abc"


def test_spans_are_those_of_the_text_as_it_was_written():
    text = "é😀 b\u200bomb 😀"
    mask = mask_compiled(MaskText((TextTarget.CONTENT,), words=("bomb",)))

    (span,) = mask.spans(text)

    assert text[span.start : span.end] == "b\u200bomb"


def test_what_overlaps_is_masked_once():
    assert masked("joe@bomb.com", kinds=(MaskKind.EMAIL,), words=("bomb",)) == "***"


def test_escapes_in_json_are_read_and_strings_stay_strings():
    assert masked(r'{"q":"\u0062omb"}', is_json=True, words=("bomb",)) == '{"q":"***"}'
    assert masked(r'{"q":"bomb"}', is_json=True, words=("bomb",), replacement='"') == r'{"q":"\""}'
    assert masked(r'{"q":"\ud83d\ude00 bomb"}', is_json=True, words=("bomb",)) == r'{"q":"\ud83d\ude00 ***"}'
    assert masked(r'{"q":"\\u0062omb"}', is_json=True, words=("bomb",)) == r'{"q":"\\u0062omb"}'
    assert masked(r'{"q":"a\nbomb\ud800"}', is_json=True, words=("bomb",)) == r'{"q":"a\n***\ud800"}'


def test_halves_of_surrogate_pairs_harm_nothing():
    assert masked("\ud800 bomb AB-1", words=("bomb",), patterns=("AB-1",)) == "\ud800 *** ***"
    assert folded("\udfff X") == "\udfff x"


def test_too_many_matches_are_an_error_and_not_a_long_wait():
    with pytest.raises(MaskFailed, match="matches"):
        masked("a " * (MAX_MATCHES + 1), words=("a",))
    with pytest.raises(MaskFailed, match="large"):
        masked("a" * (MAX_MASKED_CHARS + 1), words=("b",))


@pytest.mark.parametrize("text", ["x", "é", "@", "a@", "a@b.", "\u200b", "a\u0301", "<", "9", "{ "])
def test_a_long_text_takes_time_in_proportion_to_it(text):
    """What grows as its square would take minutes."""
    everything = MaskText(
        (TextTarget.CONTENT,),
        kinds=(MaskKind.EMAIL, MaskKind.CARD_NUMBER),
        words=("bomb", "credit card", "a a b"),
        patterns=(r"(a+)+b", r"\d{3}-\d{4}"),
    )
    begin = time.process_time()

    mask_compiled(everything).spans(text * (60_000 // len(text)))

    assert time.process_time() - begin < 20


def test_whatever_composes_with_what_stands_before_it_is_read_with_it():
    """So that pieces by themselves give what the whole text gives (UAX #15)."""
    seconds = set()
    for code in range(0x30000):
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            seconds.add(chr(int(parts[1], 16)))
    seconds |= {chr(code) for code in (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))}

    assert [character for character in sorted(seconds) if not _continues(character)] == []


def test_plain_text_needs_no_way_back():
    reading = reading_of("plain, größer, 你好")

    assert reading.starts is None
    assert reading.source(1, 3) == (1, 3)
