"""What is made of a vocabulary once, and kept as long as the vocabulary is there.

A table of 100,000 tokens takes too long to be made for each answer. But models come and go, and a cache that
held the tokenizers of those that have gone would hold megabytes for each.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from inference.domain.tokenizer import Tokenizer

P = ParamSpec("P")
T = TypeVar("T")

# Formats and ways to think that one model is asked for: mostly one.
MAX_KEPT = 16


def kept_with_tokenizer(
    make: Callable[Concatenate[Tokenizer, P], T],
) -> Callable[Concatenate[Tokenizer, P], T]:
    """Make it once for each tokenizer and the other arguments, which are hashable. At most MAX_KEPT of a
    tokenizer are kept, and none longer than the tokenizer: so what is made must not hold it. From any
    thread; two at once may both make it."""
    kept: WeakKeyDictionary[Tokenizer, dict[object, T]] = WeakKeyDictionary()

    @wraps(make)
    def find(tokenizer: Tokenizer, /, *args: P.args, **kwargs: P.kwargs) -> T:
        of_this = kept.setdefault(tokenizer, {})
        key = (args, tuple(kwargs.items()))
        found = of_this.get(key)
        if found is None:
            found = make(tokenizer, *args, **kwargs)
            if len(of_this) >= MAX_KEPT:
                of_this.clear()
            of_this[key] = found
        return found

    return find
