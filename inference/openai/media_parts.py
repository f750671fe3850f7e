"""A content part that is a picture or a sound, in one of the shapes in which clients send them.

OpenAI's own are `{"type": "image_url", "image_url": {"url": …}}` and `{"type": "input_audio",
"input_audio": {"data": …}}`; others send the string where the object is expected, call the part as
the Responses API does, or put `url` or `data` right into it; Anthropic's `image` has a `source`. What the
file is, its content says, not its declared type.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import NoReturn

from inference.domain.errors import InvalidRequest
from inference.domain.media import MediaKind, MediaPart

MEDIA_KINDS = {
    "image_url": MediaKind.IMAGE,
    "input_image": MediaKind.IMAGE,
    "image": MediaKind.IMAGE,
    "input_audio": MediaKind.AUDIO,
    "audio": MediaKind.AUDIO,
    "audio_url": MediaKind.AUDIO,
}
# Known, and not served: their loss would change the answer.
UNSERVED_KINDS = frozenset(("video_url", "input_video", "video", "file", "input_file"))
_PLACES = (*MEDIA_KINDS, "source", "url", "data")
_BLANKS = re.compile(r"[ \t\r\n]+")
_MAX_HEAD_CHARS = 1000
_DATA_URL = re.compile(r"data:[^,]*;\s*base64\s*", re.IGNORECASE)


def read_media_part(part: Mapping[str, object], param: str) -> MediaPart:
    """A part whose `type` is one of MEDIA_KINDS. Raises InvalidRequest, which never quotes the file."""
    kind = MEDIA_KINDS[str(part["type"])]
    given = next((part[place] for place in _PLACES if part.get(place) is not None), None)
    if isinstance(given, Mapping):
        given = given["url"] if given.get("url") is not None else given.get("data")
    if given is None:
        _refuse(param, "it has neither a url nor data")
    if not isinstance(given, str):
        _refuse(param, "its url or data must be a string")
    scheme = given[:8].lower()
    if scheme.startswith(("http://", "https://")):
        return MediaPart(kind, param, url=given)
    data = _decoded(given, param)
    if not data:
        _refuse(param, "its data is empty")
    return MediaPart(kind, param, data=data)


def _decoded(text: str, param: str) -> bytes:
    """The bytes of a data: URL, or of bare base64: standard, or URL-safe; with padding or without."""
    if text[:5].lower() == "data:":
        head, comma, text = text.partition(",")
        if not comma or len(head) > _MAX_HEAD_CHARS or not _DATA_URL.fullmatch(head):
            _refuse(param, "its data: URL must be of the form data:…;base64,…")
    elif ":" in text[:32]:
        _refuse(param, "its URL must be a data: URL, or one of http or https")
    bare = _BLANKS.sub("", text).rstrip("=").translate(_STANDARD)
    try:
        return base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except (binascii.Error, ValueError):
        _refuse(param, "its data is not base64")


# The URL-safe alphabet, in the letters of the standard one.
_STANDARD = str.maketrans("-_", "+/")


def _refuse(param: str, reason: str) -> NoReturn:
    raise InvalidRequest(f"Invalid '{param}': {reason}.", param=param)
