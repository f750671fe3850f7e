"""Readings of any text: what they say, and where they say it stands."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from hooks.contracts.actions import MaskText, TextTarget
from hooks.matching import folded, mask_compiled, reading_of
from hooks.matching.readings import plain

ODD = (
    "aAbBéß\u0301\u0336\u200b\u00adﬁｂＢ가\u1100\u1161\u11a8ｶﾞﾊﾟ"
    "\u0345İΐς \n\u00a0\x00\ud800😀\U000e0041\u0c46\u0c56"
)
texts = st.text(st.sampled_from(ODD), max_size=30) | st.text(max_size=30)
HIDERS = st.text(st.sampled_from("\u200b\u200d\u2060\u00ad\u0336\ufe0f\x01"), max_size=2)


@given(texts)
def test_a_reading_made_in_pieces_is_that_of_the_whole(text):
    assert reading_of(text).text == plain(text)


@given(texts)
def test_a_folded_reading_is_the_folded_text(text):
    assert " ".join(reading_of(text).folded().text.split()) == folded(text)


@given(texts)
def test_every_character_read_stands_in_the_text_in_order(text):
    reading = reading_of(text).folded()

    spans = [reading.source(place, place + 1) for place in range(len(reading.text))]

    assert all(0 <= span.start < span.end <= len(text) for span in spans)
    assert [span.start for span in spans] == sorted(span.start for span in spans)


@given(
    st.lists(st.tuples(st.sampled_from("bB"), HIDERS), min_size=1, max_size=1),
    st.lists(st.tuples(st.sampled_from(["o", "O", "ｏ", "𝐨"]), HIDERS), min_size=2, max_size=2),
    texts,
    texts,
)
def test_a_hidden_word_is_masked_wherever_it_stands(first, rest, before, behind):
    word = "".join(letter + hider for letter, hider in [*first, *rest])
    mask = mask_compiled(MaskText((TextTarget.CONTENT,), words=("boo",), replacement="#"))

    masked = mask.masked(f"{before} {word} {behind}")

    assert len(masked) < len(f"{before} {word} {behind}")
    assert mask.spans(masked) == []


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=20), max_size=3), st.booleans())
def test_masked_json_is_json(value, is_ascii):
    mask = mask_compiled(
        MaskText((TextTarget.ARGUMENTS,), words=("a", "0"), patterns=("[b-f]+",), replacement='"\\')
    )
    text = json.dumps({f"key {name}": part for name, part in value.items()}, ensure_ascii=is_ascii)

    assert isinstance(json.loads(mask.masked(text, is_json=True)), dict)
