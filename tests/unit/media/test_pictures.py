from __future__ import annotations

import io
import random

import pytest
from PIL import Image, ImageOps

from inference.domain.media import UnreadableMedia
from inference.media.limits import MediaLimits
from inference.media.picture_files import check_work
from inference.media.pictures import decode_picture
from tests.unit.media.files import animation_file, picture_file, png_bomb, png_chunk

LIMITS = MediaLimits(max_pixels=1_000_000)
RED = bytes((200, 30, 30))


def first_pixel(data: bytes) -> tuple[int, ...]:
    return tuple(decode_picture(data, b"d", LIMITS).rgb[:3])


@pytest.mark.parametrize("format", ["PNG", "JPEG", "WEBP", "GIF"])
def test_the_four_formats_are_read_row_by_row(format: str) -> None:
    options = {"lossless": True} if format == "WEBP" else {}
    found = decode_picture(picture_file(40, 24, format=format, **options), b"digest", LIMITS)
    assert (found.width, found.height, len(found.rgb)) == (40, 24, 3 * 40 * 24)
    assert found.digest == b"digest"
    assert all(abs(one - other) < 8 for one, other in zip(found.rgb[:3], RED, strict=True))


@pytest.mark.parametrize(
    ("mode", "color", "expected"),
    [
        ("L", 90, (90, 90, 90)),
        ("1", 1, (255, 255, 255)),
        ("RGBA", (200, 30, 30, 255), (200, 30, 30)),
        ("RGBA", (200, 30, 30, 0), (255, 255, 255)),
        ("LA", (90, 0), (255, 255, 255)),
        ("P", 0, (0, 0, 0)),
        ("I;16", 0, (0, 0, 0)),
    ],
)
def test_other_kinds_of_pixels_become_colours_on_white(
    mode: str, color: object, expected: tuple[int, ...]
) -> None:
    assert first_pixel(picture_file(mode=mode, color=color)) == expected


@pytest.mark.parametrize("orientation", range(10))
@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP"])
def test_a_photograph_is_turned_upright(orientation: int, format: str) -> None:
    picture = Image.effect_noise((40, 24), 90).convert("RGB")
    exif = Image.Exif()
    exif[0x0112] = orientation
    buffer = io.BytesIO()
    options = {"lossless": True} if format == "WEBP" else {}
    picture.save(buffer, format, exif=exif, **options)
    found = decode_picture(buffer.getvalue(), b"", LIMITS)
    with Image.open(io.BytesIO(buffer.getvalue())) as opened:
        expected = ImageOps.exif_transpose(opened).convert("RGB")
    assert (found.width, found.height) == expected.size
    assert found.rgb == expected.tobytes()


def test_of_several_views_in_a_jpeg_the_first_is_read() -> None:
    views = [Image.new("RGB", (20, 20), (index * 90, 0, 0)) for index in range(3)]
    buffer = io.BytesIO()
    views[0].save(buffer, "MPO", save_all=True, append_images=views[1:])
    assert first_pixel(buffer.getvalue()) == (0, 0, 0)


JPEG = picture_file(200, 200, format="JPEG", progressive=True)
SCAN = JPEG[JPEG.rfind(b"\xff\xda") : -2]
PNG, GIF = picture_file(200, 200), picture_file(50, 50, format="GIF")
FRAME = GIF.index(b",", 13)


@pytest.mark.parametrize(
    "data",
    [
        JPEG[:-2] + SCAN * 100 + b"\xff\xd9",
        JPEG[:2] + b"\xff\xfe\x00\x02" * 1_000_000 + JPEG[2:],
        JPEG[:2] + b"\xff\xe1\x00\x08Exif\0\0" * 300_000 + JPEG[2:],
        PNG[:33] + png_chunk(b"abCd", b"") * 100_000 + PNG[33:],
        PNG[:33] + png_chunk(b"tEXt", b"a\0b") * 100_000 + PNG[33:],
        GIF[:FRAME] + b"\x21\xfe" + (b"\xff" + b"a" * 255) * 80_000 + b"\0" + GIF[FRAME:],
    ],
    ids=["scans", "comments", "exif", "chunks", "texts", "gif"],
)
def test_files_that_make_much_work_of_few_pixels_are_refused_at_once(data: bytes) -> None:
    with pytest.raises(UnreadableMedia, match=r"too many parts|GIF of more"):
        check_work(data)
    with pytest.raises(UnreadableMedia):
        decode_picture(data, b"", LIMITS)


def test_large_sensible_files_are_not_among_them() -> None:
    noise = Image.effect_noise((1000, 1000), 100).convert("RGB")
    for format, options in (("JPEG", {"progressive": True, "quality": 98}), ("PNG", {}), ("GIF", {})):
        buffer = io.BytesIO()
        noise.save(buffer, format, **options)
        check_work(buffer.getvalue())
    # A thumbnail or a profile in a segment, and a film behind the end, look like markers now and then.
    noise_bytes = random.Random(5).randbytes(60_000)
    profile = b"\xff\xe2" + (len(noise_bytes) + 2).to_bytes(2, "big") + noise_bytes
    photograph = JPEG[:2] + profile * 20 + JPEG[2:] + random.Random(6).randbytes(3_000_000)
    check_work(photograph)
    assert decode_picture(photograph, b"", LIMITS).width == 200


@pytest.mark.parametrize("size", range(12))
def test_what_is_cut_off_in_its_first_bytes_makes_no_work(size: int) -> None:
    for data in (JPEG, PNG, GIF):
        check_work(data[:size])


@pytest.mark.parametrize("size", [(1, 1), (1, 200), (200, 1), (1000, 1000)])
def test_the_smallest_and_the_largest(size: tuple[int, int]) -> None:
    found = decode_picture(picture_file(*size), b"", LIMITS)
    assert (found.width, found.height) == size


@pytest.mark.parametrize("size", [(1001, 1000), (1, 201), (201, 1), (30_000, 30_000), (60_000, 60_000)])
def test_sizes_are_refused_by_the_header_alone(size: tuple[int, int]) -> None:
    data = png_bomb(*size) if min(size) > 1000 else picture_file(*size)
    assert len(data) < 20_000
    with pytest.raises(UnreadableMedia, match=r"pixels|times as long"):
        decode_picture(data, b"", LIMITS)


def test_a_picture_that_is_larger_than_it_says() -> None:
    data = bytearray(animation_file()[:200])  # a frame that lies outside of the screen
    data[6:10] = b"\x01\x00\x01\x00"
    with pytest.raises(UnreadableMedia):
        decode_picture(bytes(data), b"", LIMITS)


@pytest.mark.parametrize("format", ["GIF", "WEBP", "PNG"])
def test_animations_are_refused(format: str) -> None:
    with pytest.raises(UnreadableMedia, match="animated"):
        decode_picture(animation_file(format), b"", LIMITS)


@pytest.mark.parametrize("format", ["PNG", "JPEG", "WEBP", "GIF"])
def test_what_is_cut_off_is_refused_wherever_it_is_cut(format: str) -> None:
    random = Image.effect_noise((64, 64), 100).convert("RGB")
    buffer = io.BytesIO()
    random.save(buffer, format)
    data = buffer.getvalue()
    for size in [*range(0, 64), len(data) // 2, len(data) * 3 // 4]:
        with pytest.raises(UnreadableMedia):
            decode_picture(data[:size], b"", LIMITS)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"GIF89a",
        b"%PDF-1.7",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"\0" * 1000,
        b"RIFF\x24\0\0\0WAVEfmt ",
        picture_file(format="BMP"),
        picture_file(format="TIFF"),
        picture_file(format="ICO"),
        picture_file(format="PPM"),
    ],
)
def test_what_is_something_else_is_refused(data: bytes) -> None:
    with pytest.raises(UnreadableMedia, match="PNG, JPEG, WebP or GIF"):
        decode_picture(data, b"", LIMITS)
