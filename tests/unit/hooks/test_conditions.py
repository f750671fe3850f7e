"""Conditions are checked when they are written, and asked once a firing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from hooks.conditions import (
    MAX_CONDITION_CHARS,
    MAX_TEXT_BYTES,
    VARIABLES,
    ConditionFailed,
    Context,
    Moment,
    RequestTexts,
    condition_check,
    condition_compiled,
    conditions_joined,
    variables_at,
)
from hooks.conditions.context import MAX_ITEMS, MAX_LOOP_TEXT_CHARS
from hooks.conditions.lexing import outline_of
from hooks.contracts.exchange import TerminalOutcome
from hooks.contracts.points import HookPoint
from hooks.contracts.signals import FirstTokenSignals
from hooks.contracts.view import MediaPartView, MediaSort, MessageView, OutputText, RequestView, TextPart
from tests.hook_parts import CALLER, chat, said, window

BEFORE = HookPoint.BEFORE


def moment(view: RequestView | None = None, *, point: HookPoint = BEFORE, **members: object) -> Moment:
    texts = RequestTexts(view or chat("hi"))
    made = Moment(point=point, caller=CALLER, model="small-1b", texts=texts)
    return replace(made, **members)  # type: ignore[arg-type]


def holds(expression: str, at: Moment | None = None) -> bool:
    at = at or moment()
    assert condition_check(expression, at.point) == ()
    condition = condition_compiled(expression, at.point)
    assert condition is not None
    return Context(at, condition.needs).holds(condition)


def messages(expression: str, point: HookPoint = BEFORE) -> list[str]:
    return [problem.message for problem in condition_check(expression, point)]


REQUEST = chat(
    said("Be KIND", "system"),
    said("first"),
    MessageView(
        "assistant", (TextPart("said"),), reasoning="thought", tool_arguments=(r'{"a":"\u0062omb"}',)
    ),
    MessageView(
        "user", (TextPart("the ＬＡＳＴ"), MediaPartView(MediaSort.IMAGE, "data:x", 0)), is_text=False
    ),
    parameters={"max_tokens": 7, "temperature": 1, "top_k": 40, "n": 2, "reasoning_effort": "low"},
    tool_names=("search",),
    fields=frozenset({"model", "messages", "max_tokens"}),
    metadata={"project": "p1"},
    is_stream=True,
    end_user="bob",
)


@pytest.mark.parametrize(
    "expression",
    [
        'model == "small-1b" && request.model == "small"',
        'principal.user == "ada" && principal.team == "research" && principal.key == "laptop"',
        'request.endpoint == "chat.completions" && request.stream && !request.opts_in',
        'request.end_user == "bob"',
        "request.max_tokens == 7 && request.n == 2 && request.temperature == 1.0 && request.top_p == -1.0",
        "request.parameters.top_k > 39 && 'seed' in request.parameters == false",
        'request.parameters["reasoning_effort"] == "low"',
        'request.tools.exists(name, name == "search") && request.tools == ["search"]',
        '"max_tokens" in request.fields && !("n" in request.fields)',
        'request.metadata["project"] == "p1"',
        "request.num_messages == 4 && request.num_media == 1 && request.num_token_prompts == 0",
        "request.num_chars == size(text.input)",
        'text.last_user == "the ＬＡＳＴ" && text.folded_last_user == "the last"',
        'text.system == "Be KIND" && text.user.contains("first") && !text.user.contains("said")',
        'text.folded.contains("be kind") && text.folded_user.startsWith("first")',
        'text.input.contains("thought") && text.input.contains("bomb")',
        'has_word(text.folded, "LAST") && !has_word(text.folded, "las")',
        'text.input.matches("(?i)be\\\\s+kind")',
    ],
)
def test_a_request_can_be_asked_about(expression):
    assert holds(expression, moment(REQUEST))


def test_what_was_not_sent_has_a_value_that_nobody_sends():
    nothing = moment(RequestView(endpoint="completions", model="m", prompts=("Say x", None)))

    assert holds("request.max_tokens == 0 && request.n == 1 && request.temperature == -1.0", nothing)
    assert holds('text.last_user == "Say x" && text.input == "Say x" && text.system == ""', nothing)
    assert holds("request.num_token_prompts == 1 && request.num_messages == 0", nothing)


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "max_output_tokens"])
def test_the_limit_is_read_under_each_of_its_names(name):
    assert holds("request.max_tokens == 9", moment(chat("hi", parameters={name: 9})))


def test_numbers_beyond_64_bits_are_held_to_them():
    view = chat("hi", parameters={"max_tokens": 1 << 90, "seed": -(1 << 90), "temperature": True})

    assert holds("request.max_tokens > 5 && request.parameters.seed < 0", moment(view))
    assert holds("request.temperature == -1.0", moment(view))


@pytest.mark.parametrize(
    ("expression", "at"),
    [
        (
            "signals.entropy > 2.0 && signals.margin < 1.0 && choice == 3",
            moment(point=HookPoint.AFTER_PREFILL, first_token=FirstTokenSignals(2.5, 0.5), choice=3),
        ),
        (
            "signals.num_repetitions == 3 && signals.max_entropy >= signals.mean_entropy"
            " && signals.num_decoded == 20",
            moment(point=HookPoint.MID_GENERATION, window=window(), choice=0),
        ),
        (
            'output.content == "A" && output.reasoning == "B" && output.arguments == "{}"'
            ' && output.folded == "a b {}" && output.is_last && output.num_released_chars == 4',
            moment(
                point=HookPoint.OUTPUT,
                output=OutputText(0, "A", "B", {0: "{}"}, num_released_chars=4, is_last=True),
            ),
        ),
        (
            'outcome.kind == "success" && outcome.status == 200 && outcome.text.contains("42")',
            moment(point=HookPoint.TERMINAL, outcome=TerminalOutcome("success", 200, texts=("a", "42"))),
        ),
    ],
)
def test_what_is_known_at_a_point_can_be_asked_there(expression, at):
    assert holds(expression, at)


def test_each_number_of_a_window_is_asked_by_its_own_name():
    numbers = {
        "num_decoded": 40,
        "num_tokens": 15,
        "mean_entropy": 2.5,
        "max_entropy": 5.5,
        "mean_margin": 0.75,
        "min_margin": 0.125,
        "num_high_entropy": 7,
        "num_repetitions": 3,
    }
    at = moment(point=HookPoint.MID_GENERATION, window=window(**numbers), choice=0)

    for name, number in numbers.items():
        assert holds(f"signals.{name} == {number}", at), name


def test_a_word_escaped_in_arguments_is_read_in_the_folded_output():
    output = OutputText(0, arguments={0: r'{"q":"\u0042\u006fmb"}'})

    assert holds('has_word(output.folded, "bomb")', moment(point=HookPoint.OUTPUT, output=output))


@pytest.mark.parametrize(
    ("name", "point"),
    [(variable.name, point) for variable in VARIABLES for point in HookPoint if point not in variable.points],
)
def test_what_is_not_known_at_a_point_is_refused_there_with_its_place(name, point):
    (problem,) = condition_check(f"true ||\n  {name} == null", point)

    assert problem.message == f"{name} is not known at {point.value}."
    assert (problem.line, problem.column) == (2, 3)


@pytest.mark.parametrize("point", list(HookPoint))
def test_every_variable_has_a_value_of_its_type_at_each_of_its_points(point):
    whole = {
        HookPoint.AFTER_PREFILL: {"first_token": FirstTokenSignals(1.0, 1.0), "choice": 0},
        HookPoint.MID_GENERATION: {"window": window(), "choice": 0},
        HookPoint.OUTPUT: {"output": OutputText(0, "x"), "choice": 0},
        HookPoint.TERMINAL: {"outcome": TerminalOutcome("error", 502)},
    }.get(point, {})
    at = moment(REQUEST, point=point, **whole)
    for name, variable in variables_at(point).items():
        same = f"size({name}) >= 0" if variable.cel_type.startswith("map") else f"{name} == {name}"
        assert holds(same, at), name


@pytest.mark.parametrize(
    ("expression", "said_of_it", "line", "column"),
    [
        ("foo == 1", "undeclared reference to 'foo'.", 1, 1),
        ("true &&\n foo", "undeclared reference to 'foo'.", 2, 2),
        ("request.n >", "Syntax error", 1, 12),
        ("request.temperature > 1", "a double is compared with 3.0, not with 3.", 1, 21),
        ("request.n", "It has to be true or false; this is of type int.", 0, 0),
        ("request.parameters.x", "It has to be true or false; this is of type dyn.", 0, 0),
        ("text.input.matches('(')", "invalid regular expression: missing ): (.", 1, 20),
        ("'a'.matches('(')", "invalid regular expression: missing ): (.", 0, 0),
        ("text.input.matches(text.system)", "text.input.matches takes a pattern in quotes.", 1, 1),
        ("true\x00 && false", "It holds a NUL, or half of a surrogate pair.", 0, 0),
        ("'\ud800' == ''", "It holds a NUL, or half of a surrogate pair.", 0, 0),
        ("(" * 30 + "true" + ")" * 30, "Brackets nest more than 24 deep.", 0, 0),
        (
            "request.tools.all(a, request.tools.all(b, request.tools.all(c, a == b)))",
            "Comprehensions nest more than 2 deep.",
            0,
            0,
        ),
        ("true || " * 600 + "true", f"It is longer than {MAX_CONDITION_CHARS} characters.", 0, 0),
        (
            "request.tools" + ".map(x, x)" * 40 + " == []",
            "Exceeded max recursion depth of 32 when parsing.",
            0,
            0,
        ),
    ],
)
def test_what_cannot_be_saved_says_why_and_where(expression, said_of_it, line, column):
    problem = condition_check(expression, BEFORE)[0]

    assert said_of_it in problem.message
    assert (problem.line, problem.column) == (line, column)


def test_all_problems_are_told_at_once():
    assert messages("foo == 1 && bar == 2") == [
        "undeclared reference to 'foo'.",
        "undeclared reference to 'bar'.",
    ]


@pytest.mark.parametrize("expression", ["", "  ", "\n"])
def test_an_empty_condition_is_always_true(expression):
    assert condition_check(expression, BEFORE) == ()
    assert condition_compiled(expression, BEFORE) is None


def test_a_condition_is_compiled_once():
    assert condition_compiled("request.n > 3", BEFORE) is condition_compiled("request.n > 3", BEFORE)


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("text.input.contains('text.user')", {"text.input"}),
        ('request.n > 1 // text.user\n && text . system == ""', {"request.n", "text.system"}),
        (r'"""text.user""" == "" || r"\d" == text.input', {"text.input"}),
        ("request.tools.exists(t, t == request.model)", {"request.tools", "request.model"}),
        (".text.input == 'x'", {"text.input"}),
        ("true", set()),
    ],
)
def test_only_what_an_expression_reads_is_handed_over(expression, names):
    condition = condition_compiled(expression, BEFORE)

    assert condition is not None
    assert condition.needs.variables == names


def test_nesting_is_counted_where_it_is():
    outline = outline_of("a.exists(x, [b].all(y, (y == ')'))) && c.map(z, z)")

    assert (outline.depth, outline.loop_depth) == (3, 2)


@pytest.mark.parametrize(
    ("expression", "said_of_it", "column"),
    [
        ("[1].map(x, text.input).size() == 1", "can only be asked (contains, endsWith, size", 12),
        ("[1].all(x, bytes(output.content) != b'')", "Inside of a comprehension output.content", 18),
        ("request.fields.map(x, x + x) == []", "Inside of a comprehension nothing is added (+)", 25),
        ("text.input" + " + text.input" * 9 + " == ''", "It adds (+) more than 8 times", 116),
    ],
)
def test_what_would_grow_without_a_bound_is_refused(expression, said_of_it, column):
    (problem,) = condition_check(expression, HookPoint.OUTPUT)
    assert said_of_it in problem.message
    assert (problem.line, problem.column) == (1, column)


@pytest.mark.parametrize(
    "expression",
    [
        "['a', 'hi'].exists(w, text.input.contains(w) || text.folded.startsWith(w))",
        "[1].exists(n, n == request.n && has_word(text.input, 'hi'))",
        "'a' + text.input == 'ahi'",
    ],
)
def test_what_does_not_grow_is_not(expression):
    assert holds(expression)


def test_patterns_are_read_as_cel_reads_them():
    at = moment(chat("Be KIND\nto é\ud800"))
    for pattern, is_found in (
        ("KIND", True), ("kind", False), ("(?i)kind", True), ("^to", False), ("é.$", True), ("d\\d", False),
    ):  # fmt: skip
        assert holds(f"text.input.matches({pattern!r})", at) is is_found
    assert holds("['KIND', 'x'].exists(w, text.input.matches('Be .*') && text.input.contains(w))", at)
    assert not holds("!text.input.matches(r'\\w+') || text.user.matches('nobody')", at)


def test_a_text_that_is_asked_again_and_again_is_bounded():
    asked = "['b', 'c'].exists(w, text.input.contains(w))"
    assert not holds(asked, moment(chat("a" * MAX_LOOP_TEXT_CHARS)))
    with pytest.raises(ConditionFailed) as failed:
        holds(asked, moment(chat("a" * (MAX_LOOP_TEXT_CHARS + 1))))
    assert failed.value.reason == "the input is too large"


def test_patterns_and_comprehensions_are_known_to_cost():
    for expression in ("text.input.matches('a')", "('a' + model).matches('a')", "[1].exists(x, x == 1)"):
        condition = condition_compiled(expression, BEFORE)
        assert condition is not None
        assert condition.is_costly
    cheap = condition_compiled("text.input.contains('matches') // all()", BEFORE)
    assert cheap is not None
    assert not cheap.is_costly


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("request.metadata['x'] == '1'", "the condition has an error"),
        ("1 / (request.n - 1) == 0", "the condition has an error"),
        ("request.parameters.x > 3", "the condition has an error"),
        ("model.matches(text.system)", "the condition has an error"),
    ],
)
def test_what_is_neither_true_nor_false_fails(expression, reason):
    with pytest.raises(ConditionFailed) as failed:
        holds(expression, moment(chat(said("(", "system"), "hi")))

    assert failed.value.reason == reason


def test_an_error_that_decides_nothing_does_not_fail():
    assert holds("request.metadata['x'] == '1' || request.n == 1")


def test_an_evaluation_without_an_end_in_sight_is_ended():
    tools = chat("hi", tool_names=tuple(str(number) for number in range(1000)))

    with pytest.raises(ConditionFailed) as failed:
        holds("request.tools.all(a, request.tools.all(b, a != 'x' || b != 'y'))", moment(tools))

    assert failed.value.reason == "the evaluation took too long"


@pytest.mark.parametrize(
    ("view", "expression"),
    [
        (chat("x" * (MAX_TEXT_BYTES + 1)), "text.input == ''"),
        (chat("é" * (MAX_TEXT_BYTES // 2 + 1)), "text.input == ''"),
        (chat("x" * (MAX_TEXT_BYTES + 1)), "text.folded == ''"),
        (chat("hi", tool_names=("t",) * (MAX_ITEMS + 1)), "request.tools == []"),
        (chat("hi", metadata={"k": "v" * 100_000}), "request.metadata.k == ''"),
        (chat("hi", metadata={str(n): "v" for n in range(2000)}), "request.metadata == {}"),
    ],
)
def test_an_input_that_is_too_large_fails_those_who_read_it_and_only_those(view, expression):
    large, other = condition_compiled(expression, BEFORE), condition_compiled("request.n == 1", BEFORE)
    assert large is not None
    assert other is not None
    context = Context(moment(view), large.needs | other.needs)

    with pytest.raises(ConditionFailed, match="the input is too large"):
        context.holds(large)
    assert context.holds(other)


def test_a_value_that_cannot_be_made_fails_those_who_read_it_and_only_those():
    class Broken(RequestTexts):
        @property
        def user_text(self):
            raise ValueError("swordfish")

    broken, other = (
        condition_compiled("text.user == ''", BEFORE),
        condition_compiled("request.n == 1", BEFORE),
    )
    assert broken is not None
    assert other is not None
    context = Context(
        Moment(point=BEFORE, caller=CALLER, model="m", texts=Broken(chat("hi"))),
        broken.needs | other.needs,
    )

    assert context.holds(other)
    with pytest.raises(ConditionFailed, match="the input cannot be read"):
        context.holds(broken)


@pytest.mark.parametrize(
    ("expression", "is_found"),
    [
        ('has_word(text.input, "BOMB")', True),
        ("has_word(text.folded, 'bomb')", True),
        ('has_word( text . user , """Bomb""" ) // here', True),
        ("has_word(text.input, ['gun', 'b\\u200bomb'])", True),
        ("has_word(text.input, [r'gun', 'knife',])", False),
        ('has_word(text.system, "bomb")', False),
        ("!has_word(text.last_user, 'bom') && has_word(text.input, 'bomb')", True),
        ("[1, 2].exists(n, n == request.n && has_word(text.input, 'bomb'))", True),
    ],
)
def test_words_are_looked_for_in_any_text_however_either_is_written(expression, is_found):
    assert holds(expression, moment(chat("a ｂｏ\u0336ｍｂ"))) is is_found


@pytest.mark.parametrize(
    ("expression", "said_of_it", "line", "column"),
    [
        ("true &&\n has_word(text.input, request.model)", "It is written has_word", 2, 2),
        ("['a'].exists(w, has_word(text.input, w))", "It is written has_word", 1, 17),
        ("has_word('text', 'a')", "is no text here", 1, 1),
        ("has_word(text.input + text.user, 'a')", "is no text here", 1, 1),
        ("has_word(text.input, 'a' + 'b')", "It is written has_word", 1, 1),
        ("has_word(text.input, ['a', request.model])", "It is written has_word", 1, 1),
        ("has_word(text.input, [])", "It is written has_word", 1, 1),
        ("has_word(text.input, '')", "nothing that could be seen", 1, 1),
        ("has_word(text.input, ['a', '\u200b'])", "nothing that could be seen", 1, 1),
        ("has_word(request.n, 'a')", "no matching overload", 1, 9),
        ("has_word(text.input)", "undeclared reference to 'has_word'", 1, 9),
        ("__words['x']", "undeclared reference to '__words'", 1, 1),
    ],
)
def test_a_search_that_is_written_otherwise_says_so(expression, said_of_it, line, column):
    problem = condition_check(expression, BEFORE)[0]

    assert said_of_it in problem.message
    assert (problem.line, problem.column) == (line, column)


def test_searches_are_joined_with_the_rest():
    first = condition_compiled("has_word(text.input, 'one') // first", BEFORE)
    second = condition_compiled("has_word(text.input, 'two') && request.n == 1", BEFORE)
    assert first is not None
    assert second is not None
    joined = conditions_joined([first, second])
    assert joined is not None

    assert Context(moment(chat("two")), joined.needs).holds(joined)
    assert not Context(moment(chat("three")), joined.needs).holds(joined)


def test_a_text_that_was_looked_through_is_not_kept():
    """A binding that counts its references wrong keeps each text for good."""
    condition = condition_compiled(
        "has_word(text.input, 'x') || text.input.contains('y') || 'z' in request.metadata", BEFORE
    )
    assert condition is not None

    def evaluate() -> int:
        for _ in range(800):
            at = moment(chat("a" * 100_000, metadata={"k": "b" * 10_000}))
            assert not Context(at, condition.needs).holds(condition)
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    before = evaluate()

    assert evaluate() - before < 30_000_000


def test_nothing_hides_behind_a_nul():
    """The binding ends texts there."""
    assert holds("text.input.endsWith('bomb')", moment(chat("nice\x00bomb")))
    assert holds("has_word(text.folded, 'bomb')", moment(chat("nice \x00bo\x00mb")))


def test_halves_of_surrogate_pairs_harm_nothing():
    assert holds("text.input.endsWith('x') && size(text.folded) > 0", moment(chat("\ud800x")))


def test_values_are_made_once_for_all_conditions_of_a_firing():
    class Counting(RequestTexts):
        num_made = 0

        @property
        def input_text(self):
            Counting.num_made += 1
            return "text"

    first = condition_compiled("text.input == 'text'", BEFORE)
    second = condition_compiled("text.input != 'other'", BEFORE)
    assert first is not None
    assert second is not None
    context = Context(Moment(point=BEFORE, caller=CALLER, model="m", texts=Counting(chat("hi"))), first.needs)

    assert Counting.num_made == 0
    assert context.holds(first)
    assert context.holds(second)
    assert Counting.num_made == 1


def test_a_moment_shows_nothing_that_anybody_wrote():
    assert "swordfish" not in repr(moment(chat("swordfish"))) + repr(RequestTexts(chat("swordfish")))


def test_a_condition_that_was_compiled_on_another_thread_holds_here():
    text = "has_word(text.folded, 'elsewhere') && request.n == 1"
    with ThreadPoolExecutor(1) as pool:
        condition = pool.submit(condition_compiled, text, HookPoint.EFFECTIVE).result()
    assert condition is not None
    at = moment(chat("from Elsewhere"), point=HookPoint.EFFECTIVE)
    context = Context(at, condition.needs)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(context.prepare).result()

    assert context.holds(condition)
