from __future__ import annotations

import re

from inference.openai.ids import new_chat_completion_id, new_completion_id


def test_ids_have_openais_prefixes_and_are_unique() -> None:
    assert re.fullmatch(r"chatcmpl-[0-9a-f]{32}", new_chat_completion_id())
    assert re.fullmatch(r"cmpl-[0-9a-f]{32}", new_completion_id())
    assert len({new_chat_completion_id() for _ in range(1000)}) == 1000
