from __future__ import annotations

from datetime import UTC, datetime

import pytest

from inference.domain.errors import InvalidRequest
from inference.prompting.chat_template import CHATML, ChatTemplate


def template(source: str, **options: str) -> ChatTemplate:
    return ChatTemplate(source, max_chars=200_000, now=lambda: datetime(2026, 3, 9, tzinfo=UTC), **options)  # type: ignore[arg-type]


MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]


def test_chatml() -> None:
    assert template(CHATML).render(MESSAGES) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_white_space_is_treated_as_hugging_face_does() -> None:
    source = "{% for m in messages %}\n    {% if true %}\n{{ m.content }}\n    {% endif %}\n{% endfor %}\n"
    assert template(source).render(MESSAGES) == "Be brief.\nHi\n"


def test_the_variables_that_templates_expect() -> None:
    source = "{{ bos_token }}|{{ eos_token }}|{{ tools is none }}|{{ add_generation_prompt }}|{{ nothing }}"
    assert template(source, bos_text="<s>", eos_text="</s>").render(MESSAGES) == "<s>|</s>|True|True|"


def test_an_older_template_gets_its_tools_as_text() -> None:
    older = template("{{ functions }}|{{ datetime }}")
    tools = [{"type": "function", "function": {"name": "f", "description": "é"}}]
    functions = '[\n    {\n        "name": "f",\n        "description": "é"\n    }\n]'
    assert older.render(MESSAGES, {"tools": tools}) == f"{functions}|Mar 09 2026"
    assert older.render(MESSAGES) == "|Mar 09 2026"
    assert older.render(MESSAGES, {"functions": "own", "datetime": "today"}) == "own|today"
    assert template("{{ tools is none }}{{ functions is defined }}").render(MESSAGES) == "TrueFalse"


def test_dates_come_from_the_clock() -> None:
    assert template("{{ strftime_now('%d %b %Y') }}").render(MESSAGES) == "09 Mar 2026"


def test_tojson_escapes_nothing_for_html() -> None:
    source = (
        "{{ {'b': '<é>', 'a': [1, none]} | tojson }}{{ {'b': 1, 'a': 2} | tojson(sort_keys=true, indent=1) }}"
    )
    assert template(source).render(MESSAGES) == '{"b": "<é>", "a": [1, null]}{\n "a": 2,\n "b": 1\n}'


def test_loop_controls_and_generation_marks() -> None:
    source = (
        "{% for m in messages %}{% if loop.index0 %}{% break %}{% endif %}{{ m.role }} of {{ loop.length }}"
        "{% endfor %}{% generation %}!{% endgeneration %}"
    )
    assert template(source).render(MESSAGES) == "system of 2!"


def test_filters_with_bounds_do_what_jinjas_do() -> None:
    source = (
        "{{ messages | map(attribute='role') | join(', ') }};{{ messages | join('-', attribute='role') }};"
        "{{ [1, 2.5] | sum }};{{ 'a-b' | replace('-', '+') }};{{ 'a\nb' | indent(2) }};"
        "{{ 2.567 | round(1) }};"
        "{{ [1] | string }};{{ 'ab' | list }};{{ 'a' ~ 1 ~ none }}"
    )
    assert template(source).render(MESSAGES) == (
        "system, user;system-user;3.5;a+b;a\n  b;2.6;[1];['a', 'b'];a1None"
    )


def test_macros_namespaces_and_recursive_loops() -> None:
    source = (
        "{% macro turn(m) %}[{{ m.role }}]{% endmacro %}{% set ns = namespace(n=0) %}"
        "{% for m in messages %}{{ turn(m) }}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}"
        "{% for x in [[1, [2]]] recursive %}{{ loop(x) if x is sequence else x }}{% endfor %}"
    )
    assert template(source).render(MESSAGES) == "[system][user]212"


def test_what_a_template_objects_to_is_the_callers_400_in_its_words() -> None:
    with pytest.raises(InvalidRequest) as caught:
        template("{{ raise_exception('Roles must alternate!') }}").render(MESSAGES)
    assert caught.value.param == "messages"
    assert caught.value.message.endswith("Roles must alternate!")


@pytest.mark.parametrize(
    "source",
    ["{{ a.b.c }}", "{{ none + 'x' }}", "{{ 1 // 0 }}", "{{ [] | first + 1 }}", "{{ messages[9].x.y }}"],
)
def test_a_template_that_fails_is_a_400_without_its_source(source: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        template("secret line" + source).render(MESSAGES)
    assert caught.value.param == "messages"
    assert "secret line" not in caught.value.message
    assert "0x" not in caught.value.message


def test_a_long_objection_is_cut() -> None:
    with pytest.raises(InvalidRequest) as caught:
        template("{{ raise_exception('x' * 100000) }}").render(MESSAGES)
    assert len(caught.value.message) <= 500


def test_messages_of_the_caller_are_data_and_not_templates() -> None:
    text = "{{ 7 * 7 }}{% raw %}"
    assert text in template(CHATML).render([{"role": "user", "content": text}])


def test_literals_are_known() -> None:
    assert {"<|", "|>", "\n"} <= template("{{ '<|' + messages[0].role + '|>' }}\n\n").literals
