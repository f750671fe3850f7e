from __future__ import annotations

import base64

import pytest

from inference.domain.errors import InvalidRequest
from inference.domain.media import MediaKind
from inference.openai.media_parts import read_media_part

# Bytes whose base64 has the letters in which the two alphabets differ, and padding.
FILE = b"\xfb\xff\xbf picture \xfe\xff\xfe!"
STANDARD = base64.b64encode(FILE).decode()
URL_SAFE = base64.urlsafe_b64encode(FILE).decode()
assert "+" in STANDARD
assert STANDARD.endswith("=")
DATA_URL = f"data:image/png;base64,{STANDARD}"


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": DATA_URL}},
        {"type": "image_url", "image_url": {"url": DATA_URL, "detail": "low"}},
        {"type": "image_url", "image_url": DATA_URL},
        {"type": "input_image", "image_url": DATA_URL},
        {"type": "input_image", "input_image": {"url": DATA_URL}},
        {"type": "image", "image": {"data": STANDARD}},
        {"type": "image", "image": DATA_URL},
        {"type": "image", "url": DATA_URL},
        {"type": "image", "data": STANDARD},
        {"type": "image", "data": STANDARD.rstrip("=")},
        {"type": "image", "data": URL_SAFE},
        {"type": "image", "data": URL_SAFE.rstrip("=")},
        {"type": "image", "data": f"{STANDARD[:7]}\r\n {STANDARD[7:]}\n"},
        {"type": "image", "image": None, "data": STANDARD},
        {"type": "image", "image": {"url": None, "data": STANDARD}},
        {"type": "image_url", "image_url": f"DATA:;BASE64,{STANDARD}"},
        {"type": "image_url", "image_url": f"data:image/png;name=a.png;base64,{STANDARD}"},
        {"type": "image_url", "image_url": f"data:text/html;base64,{STANDARD}"},
    ],
)
def test_every_shape_of_a_picture_is_the_same_file(part: dict[str, object]) -> None:
    found = read_media_part(part, "messages[0].content[1]")
    assert (found.kind, found.data, found.url) == (MediaKind.IMAGE, FILE, None)
    assert found.param == "messages[0].content[1]"


@pytest.mark.parametrize(
    "part",
    [
        {"type": "input_audio", "input_audio": {"data": STANDARD, "format": "wav"}},
        {"type": "audio", "audio": {"data": STANDARD}},
        {"type": "audio_url", "audio_url": {"url": DATA_URL}},
    ],
)
def test_sounds_are_read_in_the_same_way(part: dict[str, object]) -> None:
    found = read_media_part(part, "x")
    assert (found.kind, found.data) == (MediaKind.AUDIO, FILE)


def test_addresses_are_only_noted() -> None:
    for url in ("http://example.com/a.png", "HTTPS://example.com/a"):
        found = read_media_part({"type": "image_url", "image_url": {"url": url}}, "x")
        assert (found.data, found.url) == (None, url)


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url"},
        {"type": "image_url", "image_url": None},
        {"type": "image_url", "image_url": {}},
        {"type": "image_url", "image_url": {"url": ""}},
        {"type": "image_url", "image_url": {"url": 5}},
        {"type": "image_url", "image_url": [DATA_URL]},
        {"type": "image_url", "image_url": 5},
        {"type": "image_url", "image_url": "data:image/png;base64,"},
        {"type": "image_url", "image_url": "data:image/png;base64,===="},
        {"type": "image_url", "image_url": "data:image/png,abcd"},
        {"type": "image_url", "image_url": "data:image/png;base64"},
        {"type": "image_url", "image_url": "data:"},
        {"type": "image_url", "image_url": f"data:{';' * 5000}base64,AAAA"},
        {"type": "image_url", "image_url": "data:image/png;base64,ab!d"},
        {"type": "image_url", "image_url": "data:image/png;base64,abcdé"},
        {"type": "image_url", "image_url": "data:image/png;base64,a"},
        {"type": "image_url", "image_url": "data:image/png;base64,ab=d"},
        {"type": "image_url", "image_url": "file:///etc/passwd"},
        {"type": "image_url", "image_url": "ftp://example.com/a.png"},
        {"type": "image_url", "image_url": "//example.com:80/a.png"},
        {"type": "image_url", "image_url": "example.com/a.png"},
    ],
)
def test_what_holds_no_file_is_refused_by_its_place(part: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_media_part(part, "messages[3].content[0]")
    assert caught.value.param == "messages[3].content[0]"


def test_each_part_has_a_mark_of_its_own() -> None:
    marks = {read_media_part({"type": "image", "data": STANDARD}, "x").mark for _ in range(100)}
    assert len(marks) == 100
    assert all(mark.isalnum() and mark.islower() and len(mark) == 33 for mark in marks)
