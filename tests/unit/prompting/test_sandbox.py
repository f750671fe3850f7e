from __future__ import annotations

import time

import pytest

from inference.domain.errors import InvalidRequest
from inference.prompting.chat_template import ChatTemplate, UnusableTemplate

DOUBLING = (
    "{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = EXPR %}{% endfor %}{{ ns.x }}"
)
FOLDING = "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}"

BOMBS = [
    "{{ 'a' * 10**10 }}",
    "{{ 10**10 * 'a' }}",
    "{{ ([1] * 10**9) | length }}",
    "{{ 'a' * 1000000000 }}",
    "{% for i in range(10**9) %}{% endfor %}",
    "{{ 7 ** 100000000 }}",
    DOUBLING.replace("EXPR", "ns.x ~ ns.x"),
    DOUBLING.replace("EXPR", "ns.x + ns.x"),
    DOUBLING.replace("EXPR", "'%s%s' % (ns.x, ns.x)"),
    DOUBLING.replace("EXPR", "'{0}{0}'.format(ns.x)"),
    DOUBLING.replace("EXPR", "[ns.x, ns.x] | join"),
    DOUBLING.replace("EXPR", "ns.x.join([ns.x, ns.x])"),
    DOUBLING.replace("EXPR", "ns.x.replace('a', ns.x)"),
    DOUBLING.replace("EXPR", "ns.x | replace('a', ns.x)"),
    "{% set ns = namespace(x=9) %}{% for i in range(99) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
    FOLDING + "{{ ns.x }}",
    FOLDING + "{{ ns.x | tojson }}",
    FOLDING + "{{ ns.x | string }}",
    FOLDING + "{{ 'x' ~ ns.x }}",
    FOLDING + "{{ [ns.x] | join }}",
    "{% macro m(x) %}{{ x }}{{ x }}{{ x }}{{ x }}{% endmacro %}"
    "{{ m(m(m(m(m(m(m(m(m(m(m(m(m(m(m(m(m(m(m(m('ab')))))))))))))))))))) }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ '%*d' % (1000000000, 1) }}",
    "{{ '{:>1000000000}'.format(1) }}",
    "{{ '{:>{}}'.format(1, 1000000000) }}",
    "{{ 'a'.ljust(1000000000) }}",
    "{{ 'a'.zfill(1000000000) }}",
    "{{ '\t'.expandtabs(1000000000) }}",
    "{{ (5).to_bytes(1000000000, 'big') }}",
    "{{ 'a' | center(1000000000) }}",
    "{{ 'a' | indent(1000000000, true) }}",
    "{{ [1] | tojson(indent=1000000000) }}",
    "{{ lipsum(1000000) }}",
    "{{ range(100000) | join('x' * 90000) }}",
    "{{ 1 | round(-1000000000) }}{{ 'x' * 10**9 }}",
    "{{ strftime_now('%9999999d') }}",
    "{% for i in range(100000) %}" + "x" * 1000 + "{% endfor %}",
    "{% macro m() %}{% for i in range(100000) %}"
    + "x" * 1000
    + "{% endfor %}{% endmacro %}{{ m() | length }}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
]


@pytest.mark.parametrize("source", BOMBS)
def test_a_bomb_is_a_refusal_within_a_moment(source: str) -> None:
    begin = time.perf_counter()
    with pytest.raises((UnusableTemplate, InvalidRequest)):
        ChatTemplate(source, max_chars=200_000).render([{"role": "user", "content": "x"}])
    assert time.perf_counter() - begin < 3


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
    ],
)
def test_endless_work_ends_by_its_processor_time(source: str) -> None:
    begin = time.thread_time()
    with pytest.raises(UnusableTemplate, match="too long"):
        ChatTemplate(source, max_chars=200_000, max_cpu_s=0.2)
    assert time.thread_time() - begin < 1


@pytest.mark.parametrize(
    "source",
    [
        "{{ cycler.__init__.__globals__ }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ ''['__class__'] }}",
        "{{ ''|attr('__class__') }}",
        "{% if false %}{{ messages.__class__ }}{% endif %}",
        "{{ messages.append(1) }}",
        "{{ raise_exception.__globals__ }}",
        "{{ ''[('_' ~ '_class_' ~ '_')].x }}",
        "{{ '{0.__class__.__mro__}'.format('') }}",
        "{% if %}",
        "{{ x | no_such_filter }}",
        "{% include 'x' %}{% endinclude %}",
        "x" * (1024 * 1024 + 1),
        "{{ " + "(" * 5_000 + "1" + ")" * 5_000 + " }}",
    ],
)
def test_what_reaches_out_or_does_not_compile_is_refused_at_load(source: str) -> None:
    with pytest.raises(UnusableTemplate):
        ChatTemplate(source, max_chars=200_000)


def test_ordinary_formats_work() -> None:
    template = ChatTemplate("{{ '{}-{:>3}'.format('a', 5) }}{{ '%s=%02d' % ('b', 7) }}", max_chars=200_000)
    assert template.render([]) == "a-  5b=07"


def test_budgets_are_whole_again_for_each_rendering() -> None:
    template = ChatTemplate(
        "{% for i in range(100) %}{{ messages[0].content }}{% endfor %}", max_chars=200_000
    )
    for _ in range(50):
        assert len(template.render([{"role": "user", "content": "x" * 1_000}])) == 100_000
