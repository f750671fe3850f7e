"""Calls that are JSON objects.

Most of the transcripts are those of llama.cpp's tests/test-chat.cpp (MIT).
"""

from __future__ import annotations

from tests.golden.answers import HELLO, NO_CALLS, ONE, ONE_CALL, THOUGHT, TWO, Golden

_HERMES_ONE = '<tool_call>\n{"name": "special_function", "arguments": {"arg1": 1}}\n</tool_call>'
_HERMES_TWO = (
    '<tool_call>\n{"name": "special_function_with_opt", "arguments": {"arg1": 1, "arg2": 2}}\n</tool_call>'
)

JSON_ANSWERS: tuple[Golden, ...] = (
    # Hermes, Qwen
    Golden("hermes", HELLO, HELLO),
    Golden("hermes", _HERMES_ONE, calls=(ONE,)),
    Golden("hermes", f"{_HERMES_ONE}\n{_HERMES_TWO}\n", calls=(ONE, TWO)),
    Golden("hermes", f"{HELLO}\n{_HERMES_ONE}", HELLO, calls=(ONE,)),
    Golden("hermes", f"<think>\n{THOUGHT}\n</think>\n\n{_HERMES_ONE}", None, THOUGHT, (ONE,)),
    Golden("hermes", f"{THOUGHT}\n</think>\n\n{HELLO}", HELLO, THOUGHT, is_open=True),
    Golden("hermes", f"<think>\n\n</think>\n\n{HELLO}", HELLO),
    Golden("hermes", f"<think>{THOUGHT}", None, THOUGHT),
    Golden("hermes", f"</think>{HELLO}", HELLO, is_open=True),
    Golden(
        "hermes",
        '<tool_call>\n{"name": "special_function", "arguments": {"ar',
        calls=(("special_function", '{"ar', ""),),
        has_called=False,
    ),
    Golden(
        "hermes",
        '<tool_call>\n{"name": "special_function", "argu',
        calls=(("special_function", "", ""),),
        has_called=False,
    ),
    Golden("hermes", '<tool_call>\n{"name": "special_f', '<tool_call>\n{"name": "special_f'),
    Golden(
        "hermes",
        "Write <tool_call> and then {JSON}, like <tool_cal",
        "Write <tool_call> and then {JSON}, like <tool_cal",
    ),
    Golden("hermes", '<tool_call>["name"]</tool_call>', '<tool_call>["name"]</tool_call>'),
    Golden("hermes", '<tool_call>{"name": "unknown", "arguments": {"a": 1}}</tool_call>Hi', "Hi"),
    Golden(
        "hermes",
        '<tool_call>{"arguments": {"arg1": 1}, "id": "abc", "name": "special_function"}</tool_call>',
        calls=(("special_function", {"arg1": 1}, "abc"),),
    ),
    Golden(
        "hermes",
        '<tool_call>{"name": "special_function", '
        '"arguments": "{\\"arg1\\": 1, \\"b\\": \\"\\ud83d\\ude00\\"}"}'
        "</tool_call>",
        calls=(("special_function", {"arg1": 1, "b": "😀"}, ""),),
    ),
    Golden("hermes", '<tool_call>{"name": "empty_args"}</tool_call>', calls=(("empty_args", {}, ""),)),
    Golden(
        "hermes",
        '<tool_call>{"name": "empty_args", "arguments": null}</tool_call>',
        calls=(("empty_args", {}, ""),),
    ),
    Golden(
        "hermes",
        '<tool_call>{"name": "special_function", "arguments": {"arg1": oops}}</tool_call>Hi',
        "Hi",
        calls=(("special_function", '{"arg1": oops}}', ""),),
    ),
    Golden(
        "hermes",
        '<tool_call>{"name": "python", "arguments": {"code": "a\nb </tool_call> }"}}</tool_call>',
        calls=(("python", {"code": "a\nb </tool_call> }"}, ""),),
    ),
    Golden("hermes", f"{_HERMES_ONE}\n{_HERMES_TWO}", calls=(ONE,), tools=ONE_CALL),
    Golden("hermes", _HERMES_ONE, _HERMES_ONE, tools=NO_CALLS),
    Golden("hermes", f"<think>{_HERMES_ONE}</think>Hi", "Hi", _HERMES_ONE),
    # Mistral
    Golden("mistral-nemo", HELLO, HELLO),
    Golden(
        "mistral-nemo",
        '[TOOL_CALLS][{"name": "special_function", "arguments": {"arg1": 1}, "id": "123456789"}]',
        calls=(("special_function", {"arg1": 1}, "123456789"),),
    ),
    Golden(
        "mistral-nemo",
        'Hi [TOOL_CALLS][{"name": "special_function", "arguments": {"arg1": 1}, "id": "123456789"}, '
        '{"name": "special_function", "arguments": {"arg1": 1}, "id": "123456789"}]',
        "Hi",
        calls=(("special_function", {"arg1": 1}, "123456789"), ONE),
    ),
    Golden(
        "mistral-nemo",
        '[TOOL_CALLS][{"name": "special_function", "arguments": {"arg',
        calls=(("special_function", '{"arg', ""),),
        has_called=False,
    ),
    Golden("mistral-nemo", "[TOOL_CALLS] is a token", "[TOOL_CALLS] is a token"),
    Golden(
        "mistral-small-3.2",
        '[TOOL_CALLS]special_function[CALL_ID]000000001[ARGS]{"arg1": 1}'
        '[TOOL_CALLS]special_function_with_opt[CALL_ID]000000002[ARGS]{"arg1": 1, "arg2": 2}',
        calls=(
            ("special_function", {"arg1": 1}, "000000001"),
            ("special_function_with_opt", {"arg1": 1, "arg2": 2}, "000000002"),
        ),
    ),
    Golden("mistral-small-3.2", "Say [TOOL_CALLS]f[CALL_ID]", "Say [TOOL_CALLS]f[CALL_ID]"),
    Golden("devstral", '[TOOL_CALLS]special_function[ARGS]{"arg1": 1}', calls=(ONE,)),
    Golden("devstral", f'{HELLO}[TOOL_CALLS]special_function[ARGS]{{"arg1": 1}}', HELLO, calls=(ONE,)),
    Golden(
        "devstral",
        '[TOOL_CALLS]special_function[ARGS]{"arg1": ',
        calls=(("special_function", '{"arg1": ', ""),),
        has_called=False,
    ),
    Golden(
        "ministral-3",
        f'[THINK]{THOUGHT}[/THINK][TOOL_CALLS]special_function[ARGS]{{"arg1": 1}}',
        None,
        THOUGHT,
        (ONE,),
    ),
    Golden(
        "ministral-3",
        '[TOOL_CALLS]special_function[ARGS]{"arg1": 1}'
        '[TOOL_CALLS]special_function_with_opt[ARGS]{"arg1": 1, "arg2": 2}',
        calls=(ONE, TWO),
    ),
    # Llama 3
    Golden("llama-3", HELLO, HELLO),
    Golden("llama-3", '{"name": "special_function", "parameters": {"arg1": 1}}', calls=(ONE,)),
    Golden(
        "llama-3",
        '<|python_tag|>{"name": "special_function", "parameters": {"arg1": 1}}; '
        '{"type": "function", "name": "special_function_with_opt", "parameters": {"arg1": 1, "arg2": 2}}',
        calls=(ONE, TWO),
    ),
    Golden(
        "llama-3", '{"answer": 42, "name": "special_function"}', '{"answer": 42, "name": "special_function"}'
    ),
    Golden("llama-3", '{"name": "Ann", "parameters": 1}', '{"name": "Ann", "parameters": 1}'),
    Golden(
        "llama-3",
        'Use {"name": "special_function", "parameters": {}}',
        'Use {"name": "special_function", "parameters": {}}',
    ),
    Golden(
        "llama-3",
        '{"name": "get_time", "parameters": {"city": "To',
        calls=(("get_time", '{"city": "To', ""),),
        has_called=False,
    ),
    Golden(
        "llama-3",
        'Hi <|python_tag|>{"name": "special_function", "parameters": {"arg1": 1}}',
        "Hi",
        calls=(ONE,),
    ),
    # JSON lists
    Golden(
        "minimax-m1",
        '<tool_calls>\n{"name": "special_function", "arguments": {"arg1": 1}}\n'
        '{"name": "special_function_with_opt", "arguments": {"arg1": 1, "arg2": 2}}\n</tool_calls>',
        calls=(ONE, TWO),
    ),
    Golden("minimax-m1", "Use <tool_calls> for that", "Use <tool_calls> for that"),
    Golden(
        "apriel",
        'Hi <tool_calls>[{"name": "special_function", "arguments": {"arg1": 1}}]</tool_calls>',
        "Hi",
        calls=(ONE,),
    ),
    Golden(
        "apriel-thinker",
        f"{THOUGHT}\n[BEGIN FINAL RESPONSE]\n"
        '<tool_calls>[{"name": "special_function", "arguments": {"arg1": 1}}]</tool_calls>',
        None,
        THOUGHT,
        (ONE,),
        is_open=True,
    ),
    Golden(
        "nemotron-nano-v2",
        f"{THOUGHT}\n</think>\n\n"
        '<TOOLCALL>[{"name": "special_function", "arguments": {"arg1": 1}}, '
        '{"name": "special_function_with_opt", "arguments": {"arg1": 1, "arg2": 2}}]</TOOLCALL>\n',
        None,
        THOUGHT,
        (ONE, TWO),
        is_open=True,
    ),
    Golden("nemotron-nano-v2", "Say <TOOLCALL>[]</TOOLCALL>", "Say <TOOLCALL>[]</TOOLCALL>"),
    Golden(
        "granite-3.3",
        f"<think>{THOUGHT}</think><response>{HELLO}</response>",
        HELLO,
        THOUGHT,
    ),
    Golden(
        "granite-3.3",
        'Hi<|tool_call|>[{"name": "special_function", "arguments": {"arg1": 1}}]',
        "Hi",
        calls=(ONE,),
    ),
    Golden(
        "apertus",
        '<|inner_prefix|>Hm<|inner_suffix|>Hi<|tools_prefix|>[{"special_function": {"arg1": 1}}, '
        '{"special_function_with_opt": {"arg1": 1, "arg2": 2}}]<|tools_suffix|>',
        "Hi",
        "Hm",
        (ONE, TWO),
    ),
    Golden("apertus", "<|tools_prefix|>[1]", "<|tools_prefix|>[1]"),
    Golden(
        "apertus",
        '<|tools_prefix|>[{"get_time": {"city',
        calls=(("get_time", '{"city', ""),),
        has_called=False,
    ),
)
