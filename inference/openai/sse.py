"""Server-sent events, as far as OpenAI's streams use them: data frames, comments, one last word.

Every path of a stream ends with DONE, also after an error: clients wait for it.
"""

from __future__ import annotations

from typing import Final

import orjson

from inference.domain.errors import SkippyError
from inference.openai.errors import error_object

CONTENT_TYPE: Final = b"text/event-stream; charset=utf-8"
DONE: Final = b"data: [DONE]\n\n"
# Clients skip comments; proxies see that the connection lives.
KEEP_ALIVE: Final = b": keep-alive\n\n"


FRAME_BEGIN: Final = b"data: "
FRAME_END: Final = b"\n\n"


def frame(payload: bytes) -> bytes:
    """One event of JSON without raw line breaks (what orjson writes has none)."""
    return FRAME_BEGIN + payload + FRAME_END


def error_frame(error: SkippyError) -> bytes:
    """A failure after the headers have gone out. The caller sends DONE after it."""
    return frame(orjson.dumps(error_object(error)))
