"""Picture and sound files, made by the test that sends them."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
from PIL import Image


def picture_file(
    width: int = 40,
    height: int = 24,
    *,
    format: str = "PNG",
    color: object = (200, 30, 30),
    mode: str = "RGB",
    **options: object,
) -> bytes:
    buffer = io.BytesIO()
    Image.new(mode, (width, height), color).save(buffer, format, **options)  # type: ignore[arg-type]
    return buffer.getvalue()


def animation_file(format: str = "GIF") -> bytes:
    frames = [Image.new("RGB", (20, 20), (index * 80, 0, 0)) for index in range(3)]
    buffer = io.BytesIO()
    frames[0].save(buffer, format, save_all=True, append_images=frames[1:])
    return buffer.getvalue()


def png_chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png_bomb(width: int, height: int) -> bytes:
    """A small file that says it is a huge picture, whose rows of zeros are compressed a thousand times."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress(bytes(min(height, 20) * (1 + 3 * width)), 9)
    return (
        b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + png_chunk(b"IDAT", rows) + png_chunk(b"IEND", b"")
    )


def wave_file(
    samples: np.ndarray, *, rate: int = 16_000, kind: int = 1, num_channels: int = 1, extra: bytes = b""
) -> bytes:
    """`samples` in the type that they have in the file; uint8 of shape (n, 3) for 24 bits."""
    num_bits = 24 if samples.ndim == 2 else samples.itemsize * 8
    frame = num_channels * num_bits // 8
    head = (
        struct.pack("<HHIIHH", kind, num_channels, rate, (rate * frame) % 2**32, frame % 2**16, num_bits)
        + extra
    )
    body = samples.tobytes()
    chunks = b"WAVEfmt " + struct.pack("<I", len(head)) + head + b"LIST" + struct.pack("<I", 3) + b"abc\0"
    chunks += b"data" + struct.pack("<I", len(body)) + body
    return b"RIFF" + struct.pack("<I", len(chunks)) + chunks
