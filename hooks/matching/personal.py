"""E-mail addresses and card numbers, in plain readings (hooks/matching/readings.py). Linear in the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate

from hooks.matching.spans import Span

MAX_LOCAL_CHARS, MAX_DOMAIN_CHARS = 64, 255  # RFC 5321, 4.5.3.1
MIN_CARD_DIGITS, MAX_CARD_DIGITS = 13, 19  # ISO/IEC 7812-1, and what is in use of it

_LOCAL = r"[\w.!#$%&'*+/=?^`{|}~-]"
_local = re.compile(_LOCAL + r"{1,64}\Z")
_at = re.compile(f"(?<={_LOCAL})@(?=[\\w-])")
_domain = re.compile(r"[\w-]{1,63}(?:\.[\w-]{1,63})*")
# One of these may stand between two digits of a number that was written in groups.
_digit_run = re.compile("\\d(?:[ .\u2010-\u2015\u2212-]?\\d){12,}")
_DOUBLED = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)
_group = re.compile(r"\d+")


def email_spans(text: str) -> Iterator[Span]:
    """Around each @ that has a name before it and a domain with a dot behind it."""
    for at in _at.finditer(text):
        place = at.start()
        local = _local.search(text[max(0, place - MAX_LOCAL_CHARS) : place])
        domain = _domain.match(text, place + 1, place + 1 + MAX_DOMAIN_CHARS)
        if local is not None and domain is not None and _is_domain(domain.group()):
            start = place - len(local.group().lstrip("."))
            if start < place:
                yield Span(start, domain.end())


def _is_domain(name: str) -> bool:
    labels = name.split(".")
    return len(labels) > 1 and len(labels[-1]) > 1 and not labels[-1].isdecimal()


def card_spans(text: str) -> Iterator[Span]:
    """Numbers of 13 to 19 digits that pass the Luhn check and begin as those of the payment networks do (2
    to 6). They may be written in groups; a number of more digits without a gap is none."""
    for run in _digit_run.finditer(text):
        groups = [Span(*group.span()) for group in _group.finditer(text, *run.span())]
        digits = [int(text[place]) for group in groups for place in range(*group)]
        firsts = [0, *accumulate(len(range(*group)) for group in groups)]
        yield from _cards(digits, firsts, groups)


def _cards(digits: list[int], firsts: list[int], groups: list[Span]) -> Iterator[Span]:
    """`firsts[i]` is the place in `digits` where group i begins; behind the last one, their number."""
    # Sums of what stands before each place, with the digits at even places doubled, or those at odd ones:
    # with them any stretch is checked in one step, however many overlap.
    sums = [
        [
            0,
            *accumulate(
                _DOUBLED[digit] if place % 2 == parity else digit for place, digit in enumerate(digits)
            ),
        ]
        for parity in (0, 1)
    ]
    for first, start in enumerate(firsts[:-1]):
        if not 2 <= digits[start] <= 6:
            continue
        for last in range(first, len(groups)):
            end = firsts[last + 1]
            if end - start > MAX_CARD_DIGITS:
                break
            if end - start >= MIN_CARD_DIGITS and (sums[end % 2][end] - sums[end % 2][start]) % 10 == 0:
                yield Span(groups[first].start, groups[last].end)
