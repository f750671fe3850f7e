"""Notations and channels of their own; models that only think; the convention for those without tools.

Most of the transcripts are those of llama.cpp's tests/test-chat.cpp (MIT).
"""

from __future__ import annotations

from tests.golden.answers import HELLO, ONE, ONE_CALL, THOUGHT, TIME, TWO, Golden

MARKED_ANSWERS: tuple[Golden, ...] = (
    # LFM2
    Golden(
        "lfm2",
        '<think>Hm</think>Let me look.<|tool_call_start|>[get_time(city="Tokyo"), '
        "special_function_with_opt(arg1=1, arg2=2)]<|tool_call_end|>",
        "Let me look.",
        "Hm",
        (TIME, TWO),
    ),
    Golden(
        "lfm2",
        "<|tool_call_start|>[python(code='\\u00e9', x=[1, .5, oops, 2])]<|tool_call_end|>",
        calls=(("python", '{"code": "é", "x": [1, 0.5, oops, 2])]', ""),),
    ),
    Golden(
        "lfm2",
        "<|tool_call_start|>[python(code='print(\\'\\x41\\n\\')', x=[1, True, None, {\"a\": -0.5e3}])]",
        calls=(("python", {"code": "print('A\n')", "x": [1, True, None, {"a": -500}]}, ""),),
    ),
    Golden("lfm2", "<|tool_call_start|>[empty_args()]<|tool_call_end|>", calls=(("empty_args", {}, ""),)),
    Golden("lfm2", "<|tool_call_start|>nothing<|tool_call_end|>", "<|tool_call_start|>nothing"),
    Golden(
        "lfm2",
        '<|tool_call_start|>[get_time(city="To',
        calls=(("get_time", '{"city": "To', ""),),
        has_called=False,
    ),
    # Gemma 4
    Golden("gemma-4", f"<|channel>thought\n{THOUGHT}<channel|>{HELLO}", HELLO, THOUGHT),
    Golden("gemma-4", f"<|channel>thought<channel|>{HELLO}", HELLO),
    Golden("gemma-4", f"{HELLO}<|channel>thought\n<channel|>", HELLO),
    Golden(
        "gemma-4",
        f'{HELLO}<|tool_call>call:get_time{{city:<|"|>Tokyo<|"|>}}<tool_call|>'
        "<|tool_call>call:special_function_with_opt{arg1:1,arg2:2}<tool_call|>",
        HELLO,
        calls=(TIME, TWO),
    ),
    Golden(
        "gemma-4",
        '<|channel>thought\nHm<channel|><|tool_call>call:edit{filename:<|"|>a "b"\\n<|"|>,all:true,'
        'x:{y:[1,<|"|>z<|"|>,null]}}<tool_call|>',
        None,
        "Hm",
        (("edit", {"filename": 'a "b"\\n', "all": True, "x": {"y": [1, "z", None]}}, ""),),
    ),
    Golden("gemma-4", "<|tool_call>call:empty_args{}<tool_call|>", calls=(("empty_args", {}, ""),)),
    Golden("gemma-4", "<|tool_call>call me", "<|tool_call>call me"),
    Golden(
        "gemma-4",
        '<|tool_call>call:get_time{city:<|"|>To',
        calls=(("get_time", '{"city": "To', ""),),
        has_called=False,
    ),
    # Harmony
    Golden("harmony", f"<|channel|>final<|message|>{HELLO}", HELLO),
    Golden("harmony", f"<|channel|>commentary<|message|>{HELLO}", HELLO),
    Golden(
        "harmony",
        f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant<|channel|>final<|message|>{HELLO}",
        HELLO,
        THOUGHT,
    ),
    Golden(
        "harmony",
        ' to=functions.special_function<|channel|>analysis <|constrain|>json<|message|>{"arg1": 1}',
        calls=(ONE,),
    ),
    Golden(
        "harmony",
        f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant<|channel|>commentary "
        'to=functions.special_function <|constrain|>json<|message|>{"arg1": 1}<|call|>',
        None,
        THOUGHT,
        (ONE,),
    ),
    Golden(
        "harmony",
        "<|channel|>commentary<|message|>Hi<|end|><|start|>assistant<|channel|>commentary "
        'to=functions.special_function<|message|>{"arg1": 1}<|call|><|start|>assistant<|channel|>commentary '
        'to=functions.special_function_with_opt<|message|>{"arg1": 1, "arg2": 2}<|call|>',
        "Hi",
        calls=(ONE, TWO),
    ),
    Golden(
        "harmony",
        "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>commentary to=python "
        '<|constrain|>code<|message|>print("hello")',
        None,
        "Hm",
    ),
    Golden(
        "harmony",
        "<|channel|>commentary to=assistant<|channel|>analysis<|message|>Hm<|end|><|start|>assistant"
        f"<|channel|>final<|message|>{HELLO}",
        HELLO,
        "Hm",
    ),
    Golden("harmony", "world!", "world!"),
    Golden(
        "harmony",
        "Hm<|end|><|start|>assistant<|channel|>final<|message|>Hi",
        "Hi",
        "Hm",
        is_open=True,
    ),
    Golden(
        "harmony",
        '<|channel|>commentary to=functions.get_time <|constrain|>json<|message|>{"city": "To',
        calls=(("get_time", '{"city": "To', ""),),
        has_called=False,
    ),
    Golden("harmony", "<|channel|>final<|message|>to=functions.get_time {}", "to=functions.get_time {}"),
    # Nothing but thinking
    Golden("plain", f"<think>\n{THOUGHT}\n</think>\n\n{HELLO}", HELLO, THOUGHT),
    Golden("plain", f"{HELLO} <think>no</think>", f"{HELLO} <think>no</think>"),
    Golden("plain", "```\n<think>\n```\n", "```\n<think>\n```\n"),
    # The convention for models whose template knows no tools
    Golden(
        "emulated",
        'Let me check. TOOL_CALL {"name": "get_time", "arguments": {"city": "Tokyo"}}',
        "Let me check.",
        calls=(TIME,),
    ),
    Golden("emulated", 'TOOL_CALL: {"name": "special_function", "arguments": {"arg1": 1}}', calls=(ONE,)),
    Golden(
        "emulated",
        'TOOL_CALL {"name": "special_function", "arguments": {"arg1": 1}}\n'
        'TOOL_CALL {"name": "special_function_with_opt", "arguments": {"arg1": 1, "arg2": 2}}\n',
        calls=(ONE, TWO),
    ),
    Golden(
        "emulated",
        '<think>TOOL_CALL {"name": "x"}</think>'
        'TOOL_CALL {"arguments": {"arg1": 1}, "name": "special_function"}',
        None,
        'TOOL_CALL {"name": "x"}',
        (ONE,),
    ),
    Golden(
        "emulated",
        'TOOL_CALL {"name": "other", "arguments": {}} ok',
        'TOOL_CALL {"name": "other", "arguments": {}} ok',
    ),
    Golden("emulated", "TOOL_CALL {oops} TOOL_CALL 5", "TOOL_CALL {oops} TOOL_CALL 5"),
    Golden("emulated", "  Let me check. TOOL \n", "Let me check. TOOL"),
    Golden("emulated", "\n \n"),
    Golden(
        "emulated",
        'TOOL_CALL {"name": "python", "arguments": {"code": "a } \\" { b"}} Done.',
        "Done.",
        calls=(("python", {"code": 'a } " { b'}, ""),),
    ),
    Golden(
        "emulated",
        'TOOL_CALL {"name": "get_time", "arguments": {"city": "To',
        calls=(("get_time", '{"city": "To', ""),),
        has_called=False,
    ),
    Golden(
        "emulated",
        'TOOL_CALL {"name": "special_function", "arguments": {"arg1": 1}} TOOL_CALL {"name": "empty_args"}',
        calls=(ONE,),
        tools=ONE_CALL,
    ),
)
