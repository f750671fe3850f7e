"""All of them."""

from __future__ import annotations

from tests.golden.answers import Golden
from tests.golden.json_answers import JSON_ANSWERS
from tests.golden.marked_answers import MARKED_ANSWERS
from tests.golden.named_answers import NAMED_ANSWERS
from tests.golden.tagged_answers import TAGGED_ANSWERS

GOLDEN: tuple[Golden, ...] = (*JSON_ANSWERS, *NAMED_ANSWERS, *MARKED_ANSWERS, *TAGGED_ANSWERS)
