"""A name, then JSON.

Most of the transcripts are those of llama.cpp's tests/test-chat.cpp (MIT).
"""

from __future__ import annotations

from tests.golden.answers import HELLO, ONE, THOUGHT, TIME, TWO, Golden

_DS, _DE = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
_DS_ONE = '<｜tool▁call▁begin｜>special_function<｜tool▁sep｜>{"arg1": 1}<｜tool▁call▁end｜>'
_DS_TWO = (
    '<｜tool▁call▁begin｜>special_function_with_opt<｜tool▁sep｜>{"arg1": 1, "arg2": 2}<｜tool▁call▁end｜>'
)
_R1_ONE = (
    "<｜tool▁call▁begin｜>function<｜tool▁sep｜>special_function\n```json\n"
    '{"arg1": 1}\n```<｜tool▁call▁end｜>'
)
_R1_TWO = (
    "<｜tool▁call▁begin｜>function<｜tool▁sep｜>special_function_with_opt\n```json\n"
    '{"arg1": 1, "arg2": 2}\n```<｜tool▁call▁end｜>'
)
_DSML_TIME = (
    '<｜DSML｜invoke name="get_time">\n<｜DSML｜parameter name="city" string="true">Tokyo'
    "</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
)
_DSML_ONE = (
    '<｜DSML｜invoke name="special_function">\n<｜DSML｜parameter name="arg1" string="false">1'
    "</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
)
_KIMI_ONE = (
    '<|tool_call_begin|>functions.special_function:0<|tool_call_argument_begin|>{"arg1": 1}<|tool_call_end|>'
)
_KIMI_TWO = (
    "<|tool_call_begin|>functions.special_function_with_opt:1<|tool_call_argument_begin|>"
    '{"arg1": 1, "arg2": 2}<|tool_call_end|>'
)
_KIMI_IDS = (
    ("special_function", {"arg1": 1}, "functions.special_function:0"),
    ("special_function_with_opt", {"arg1": 1, "arg2": 2}, "functions.special_function_with_opt:1"),
)
_K3_ONE = (
    '<|open|>call tool="special_function" index="1"<|sep|><|open|>argument key="arg1" type="number"<|sep|>1'
    "<|close|>argument<|sep|><|close|>call<|sep|>"
)
_K3_TIME = (
    '<|open|>call tool="get_time" index="2"<|sep|><|open|>argument key="city" type="string"<|sep|>Tokyo'
    "<|close|>argument<|sep|><|close|>call<|sep|>"
)

NAMED_ANSWERS: tuple[Golden, ...] = (
    # Functionary, FireFunction
    Golden("functionary-v3.1", '<function=special_function>{"arg1": 1}</function>', calls=(ONE,)),
    Golden(
        "functionary-v3.1",
        'Hi <function=special_function>{"arg1": 1}</function>'
        '<function=special_function_with_opt>{"arg1": 1, "arg2": 2}</function>',
        "Hi",
        calls=(ONE, TWO),
    ),
    Golden("functionary-v3.1", "<function=other>{}</function>", "<function=other>{}</function>"),
    Golden(
        "functionary-v3.1",
        '<function=special_function>{"arg1"',
        calls=(("special_function", '{"arg1"', ""),),
        has_called=False,
    ),
    Golden("functionary-v3.2", f"all\n{HELLO}", HELLO),
    Golden("functionary-v3.2", 'special_function\n{"arg1": 1}', calls=(ONE,)),
    Golden(
        "functionary-v3.2",
        'all\nHi>>>special_function\n{"arg1": 1}>>>special_function_with_opt\n{"arg1": 1, "arg2": 2}',
        "Hi",
        calls=(ONE, TWO),
    ),
    Golden("functionary-v3.2", "all\nIn Python: >>> print(1)", "In Python: >>> print(1)"),
    Golden(
        "functionary-v3.2",
        'special_function\n{"arg1": ',
        calls=(("special_function", '{"arg1": ', ""),),
        has_called=False,
    ),
    Golden(
        "firefunction-v2",
        ' functools[{"name": "special_function", "arguments": {"arg1": 1}}]',
        calls=(ONE,),
    ),
    Golden(
        "firefunction-v2",
        'Hi functools[{"name": "special_function", "arguments": {"arg1": 1}}, '
        '{"name": "special_function_with_opt", "arguments": {"arg1": 1, "arg2": 2}}]',
        "Hi",
        calls=(ONE, TWO),
    ),
    Golden("firefunction-v2", "import functools", "import functools"),
    Golden("firefunction-v2", "the functools module", "the functools module"),
    Golden(
        "firefunction-v2",
        ' functools[{"name": "special_function", "arguments": {"a',
        calls=(("special_function", '{"a', ""),),
        has_called=False,
    ),
    # Cohere
    Golden("command-r7b", f"<|START_RESPONSE|>{HELLO}<|END_RESPONSE|>", HELLO),
    Golden(
        "command-r7b",
        f"<|START_THINKING|>{THOUGHT}<|END_THINKING|><|START_RESPONSE|>{HELLO}<|END_RESPONSE|>",
        HELLO,
        THOUGHT,
    ),
    Golden(
        "command-r7b",
        f"<|START_THINKING|>{THOUGHT}<|END_THINKING|><|START_ACTION|>[\n"
        '    {"tool_call_id": "0", "tool_name": "special_function", "parameters": {"arg1": 1}},\n'
        '    {"tool_call_id": "1", "tool_name": "special_function_with_opt", '
        '"parameters": {"arg1": 1, "arg2": 2}}\n'
        "]<|END_ACTION|>",
        None,
        THOUGHT,
        (("special_function", {"arg1": 1}, "0"), ("special_function_with_opt", {"arg1": 1, "arg2": 2}, "1")),
    ),
    Golden(
        "command-r7b",
        '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "special_function", ',
        calls=(("special_function", "", "0"),),
        has_called=False,
    ),
    Golden("command-r7b", "Hi <|START_ACTION|> there", "Hi <|START_ACTION|> there"),
    Golden(
        "command-r-plus",
        'Action:\n```json\n[{"tool_name": "special_function", "parameters": {"arg1": 1}}]\n```',
        calls=(ONE,),
    ),
    Golden(
        "command-r-plus",
        'Hi\nAction:\n```json\n[\n    {\n        "tool_name": "special_function",\n'
        '        "parameters": {"arg1": 1}\n    },\n'
        '    {\n        "tool_name": "special_function_with_opt",\n'
        '        "parameters": {"arg1": 1, "arg2": 2}\n    }\n]\n```',
        "Hi",
        calls=(ONE, TWO),
    ),
    Golden("command-r-plus", "Action: take a walk", "Action: take a walk"),
    Golden("command-r-plus", 'Action:\n```json\n[{"a": 1}]\n```', 'Action:\n```json\n[{"a": 1}]\n```'),
    Golden(
        "command-r-plus",
        'Action:\n```json\n[{"tool_name": "special_function", "parameters": {',
        calls=(("special_function", "{", ""),),
        has_called=False,
    ),
    # DeepSeek
    Golden("deepseek-v3.1", f"{_DS}{_DS_ONE}{_DE}", calls=(ONE,)),
    Golden(
        "deepseek-v3.1",
        f"REASONING</think>CONTENT{_DS}{_DS_ONE}{_DS_TWO}{_DE}",
        "CONTENT",
        "REASONING",
        (ONE, TWO),
        is_open=True,
    ),
    Golden("deepseek-v3.1", "REASONING</think>\nCONTENT", "CONTENT", "REASONING", is_open=True),
    Golden("deepseek-v3.1", "<｜tool▁call▁begin｜> alone", "<｜tool▁call▁begin｜> alone"),
    Golden(
        "deepseek-v3.1",
        f'{_DS}<｜tool▁call▁begin｜>get_time<｜tool▁sep｜>{{"city": "Tok',
        calls=(("get_time", '{"city": "Tok', ""),),
        has_called=False,
    ),
    Golden("deepseek-r1", f"</think>{_DS}{_R1_ONE}\n{_R1_TWO}{_DE}", calls=(ONE, TWO), is_open=True),
    Golden("deepseek-r1", f"{THOUGHT}</think>{HELLO}", HELLO, THOUGHT, is_open=True),
    Golden("deepseek-r1", f"Hi{_DS}{_R1_ONE}{_DE}", "Hi", calls=(ONE,)),
    Golden(
        "deepseek-r1",
        f"{_DS}<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_time\n```json\n{{",
        calls=(("get_time", "{", ""),),
        has_called=False,
    ),
    Golden("deepseek-r1", "<｜tool▁call▁begin｜>function", "<｜tool▁call▁begin｜>function"),
    Golden(
        "deepseek-v3.2",
        f"Let me check</think>\n\n<｜DSML｜function_calls>\n{_DSML_TIME}</｜DSML｜function_calls>",
        None,
        "Let me check",
        (TIME,),
        is_open=True,
    ),
    Golden(
        "deepseek-v3.2",
        f"Let me check\n\n<｜DSML｜function_calls>\n{_DSML_TIME}{_DSML_ONE}</｜DSML｜function_calls>",
        None,
        "Let me check",
        (TIME, ONE),
        is_open=True,
    ),
    Golden(
        "deepseek-v4",
        f"Hi\n\n<｜DSML｜tool_calls>\n{_DSML_ONE}</｜DSML｜tool_calls>",
        "Hi",
        calls=(ONE,),
    ),
    Golden("deepseek-v4", f"</think>{HELLO}", HELLO),
    Golden(
        "deepseek-v3.2",
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="get_time">\n'
        '<｜DSML｜parameter name="city" string="true">Tok',
        calls=(("get_time", '{"city": "Tok', ""),),
        has_called=False,
    ),
    Golden("deepseek-v3.2", 'Say <｜DSML｜invoke name="">', 'Say <｜DSML｜invoke name="">'),
    # Kimi
    Golden("kimi-k2", HELLO, HELLO),
    Golden(
        "kimi-k2",
        f"<|tool_calls_section_begin|>{_KIMI_ONE}{_KIMI_TWO}<|tool_calls_section_end|>",
        calls=_KIMI_IDS,
    ),
    Golden(
        "kimi-k2",
        f"<think>{THOUGHT}</think>{HELLO}<|tool_calls_section_begin|>{_KIMI_ONE}",
        HELLO,
        THOUGHT,
        _KIMI_IDS[:1],
    ),
    Golden("kimi-k2", f"<think>{THOUGHT}{_KIMI_ONE}", None, THOUGHT, _KIMI_IDS[:1]),
    Golden("kimi-k2", f"{_KIMI_ONE}{_KIMI_ONE}", calls=(_KIMI_IDS[0], ONE)),
    Golden("kimi-k2", "<|tool_call_begin|>hi", "<|tool_call_begin|>hi"),
    Golden(
        "kimi-k2",
        '<|tool_call_begin|>functions.get_time:0<|tool_call_argument_begin|>{"city": "',
        calls=(("get_time", '{"city": "', "functions.get_time:0"),),
        has_called=False,
    ),
    Golden(
        "kimi-k3",
        f"{THOUGHT}<|close|>think<|sep|><|open|>response<|sep|>{HELLO}<|close|>response<|sep|>"
        f"<|open|>tools<|sep|>{_K3_ONE}{_K3_TIME}<|close|>tools<|sep|><|close|>message<|sep|>",
        HELLO,
        THOUGHT,
        (ONE, TIME),
        is_open=True,
    ),
    Golden("kimi-k3", f"<|open|>response<|sep|>{HELLO}<|close|>response<|sep|>", HELLO),
    Golden(
        "kimi-k3",
        '<|open|>tools<|sep|><|open|>call tool="get_time" index="1"<|sep|><|open|>argument key="city"',
        calls=(("get_time", "", ""),),
        has_called=False,
    ),
    # GigaChat
    Golden(
        "gigachat-3",
        f"{HELLO}<|message_sep|>\n\nfunction call<|role_sep|>\n"
        '{"name": "special_function", "arguments": {"arg1": 1}}',
        HELLO,
        calls=(ONE,),
    ),
    Golden("gigachat-3", "Hi<|message_sep|>\n\nuser", "Hi<|message_sep|>\n\nuser"),
    Golden(
        "gigachat-3.1",
        '<|function_call|>{"name": "special_function", "arguments": {"arg1": 1}}',
        calls=(ONE,),
    ),
)
