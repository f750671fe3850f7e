"""How much work a picture file can make, known before a decoder begins.

Pixels bound the work of a sensible file. But a JPEG of half a megabyte may go over its pixels ten
thousand times, 42 bytes for each time, and formats with chunks may have millions of them that hold
nothing and are handled one by one. Real files have a dozen of either.
"""

from __future__ import annotations

import re
import struct

from inference.domain.media import UnreadableMedia

# Progressive photographs have about ten scans. Over 25 million pixels one takes 0.07 s.
MAX_SCANS = 64
# Segments of JPEG, 5 µs each.
MAX_SEGMENTS = 4_000
# Of PNG, 15 µs each; writers make them 8 KiB large.
MAX_CHUNKS = 20_000
# Pillow reads GIF block by block, of 255 bytes at most, in Python.
MAX_GIF_BYTES = 2 * 1024 * 1024

_JPEG, _PNG, _GIF = b"\xff\xd8", b"\x89PNG\r\n\x1a\n", b"GIF8"
# What ends the data of a scan: not a stuffed byte (00), nor a restart (D0 … D7).
_MARKER = re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")
_END, _SCAN = 0xD9, 0xDA
# Markers that no segment follows.
_LONE = frozenset((0x01, 0xD8))


def check_work(data: bytes) -> None:
    """Raises UnreadableMedia for a file whose decoding could take long for its pixels."""
    if data.startswith(_JPEG):
        _check_segments(data)
    elif data.startswith(_PNG):
        _check_chunks(data)
    elif data.startswith(_GIF) and len(data) > MAX_GIF_BYTES:
        raise UnreadableMedia(f"it is a GIF of more than {MAX_GIF_BYTES} bytes")


def _check_segments(data: bytes) -> None:
    """Up to the end of the picture: what cameras put behind it (a film) is not looked at."""
    num_segments = num_scans = 0
    found = _MARKER.search(data, len(_JPEG))
    while found is not None:
        marker, place = data[found.start() + 1], found.end()
        if marker == _END or place + 2 > len(data):
            return
        if marker not in _LONE:
            place += int.from_bytes(data[place : place + 2], "big")
        num_segments += 1
        num_scans += marker == _SCAN
        if num_segments > MAX_SEGMENTS or num_scans > MAX_SCANS:
            raise UnreadableMedia("it is made of too many parts")
        found = _MARKER.search(data, place)


def _check_chunks(data: bytes) -> None:
    place, num_chunks = len(_PNG), 0
    while place + 8 <= len(data):
        (size,) = struct.unpack_from(">I", data, place)
        place += size + 12
        num_chunks += 1
        if num_chunks > MAX_CHUNKS:
            raise UnreadableMedia("it is made of too many parts")
