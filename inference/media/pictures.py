"""Bytes that somebody sent to pixels.

A picture file of a few hundred bytes can hold a picture of a gigabyte, and decoders are where servers
have been broken into. So only four formats are tried, by Pillow, which is fuzzed and mended all the
time; what its header says of the size is believed or refused before anything is decoded; and
libmtmd, whose decoder runs in our process, never sees the file.
"""

from __future__ import annotations

import io

from PIL import Image

from inference.domain.media import Picture, UnreadableMedia
from inference.media.limits import MediaLimits
from inference.media.picture_files import check_work

FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
# Projectors scale a picture until its shorter side fits; beyond this (the limit that Qwen's own code
# has) nothing of it is left to be seen, and sizes are computed that nobody has tried.
MAX_ASPECT_RATIO = 200
MAX_SIDE = 65_000
WHITE = (255, 255, 255)
_ANIMATED_FORMATS = frozenset(("PNG", "WEBP", "GIF"))
_ORIENTATION = 0x0112
# How a camera was held (EXIF), and what turns its picture upright.
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
MAX_EXIF_BYTES = 64 * 1024

_TOO_LARGE = (Image.DecompressionBombError, Image.DecompressionBombWarning)


def decode_picture(data: bytes, digest: bytes, limits: MediaLimits) -> Picture:
    """The pixels of a PNG, JPEG, WebP or GIF file that holds one picture: upright, on white where it was
    transparent. Raises UnreadableMedia."""
    check_work(data)
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            _check_size(image.size, limits)
            # Further pictures in a JPEG are other views of it (depth, light), made by cameras.
            if image.format in _ANIMATED_FORMATS and getattr(image, "is_animated", False):
                raise UnreadableMedia("it is animated, and only still pictures can be read")
            image.load()
            _check_size(image.size, limits)  # a frame may be larger than the header said
            rgb = _on_white(_upright(image))
    except UnreadableMedia:
        raise
    except _TOO_LARGE:
        raise _too_large(limits) from None
    except Exception as error:  # whatever a decoder finds wrong, the file is
        raise UnreadableMedia("it is not a whole PNG, JPEG, WebP or GIF picture") from error
    return Picture(rgb.width, rgb.height, rgb.tobytes(), digest)


def _check_size(size: tuple[int, int], limits: MediaLimits) -> None:
    width, height = size
    if width * height > limits.max_pixels or max(size) > MAX_SIDE:
        raise _too_large(limits)
    if min(size) < 1 or max(size) > MAX_ASPECT_RATIO * min(size):
        raise UnreadableMedia(f"one of its sides is more than {MAX_ASPECT_RATIO} times as long as the other")


def _too_large(limits: MediaLimits) -> UnreadableMedia:
    return UnreadableMedia(f"it has more than {limits.max_pixels} pixels")


def _upright(image: Image.Image) -> Image.Image:
    if len(image.info.get("exif", b"")) > MAX_EXIF_BYTES:
        return image
    orientation = image.getexif().get(_ORIENTATION)
    turn = _UPRIGHT.get(orientation) if isinstance(orientation, int) else None
    return image if turn is None else image.transpose(turn)


def _on_white(image: Image.Image) -> Image.Image:
    if not image.has_transparency_data:
        return image.convert("RGB")
    ground = Image.new("RGB", image.size, WHITE)
    with_alpha = image.convert("RGBA")
    ground.paste(with_alpha, mask=with_alpha.getchannel("A"))
    return ground
