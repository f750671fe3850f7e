"""Arguments in tags.

Most of the transcripts are those of llama.cpp's tests/test-chat.cpp (MIT).
"""

from __future__ import annotations

from tests.golden.answers import HELLO, ONE, THOUGHT, TWO, Golden

_QWEN_ONE = (
    "<tool_call>\n<function=special_function>\n<parameter=arg1>\n1\n</parameter>\n</function>\n</tool_call>"
)
_QWEN_TWO = (
    "<tool_call>\n<function=special_function_with_opt>\n<parameter=arg1>\n1\n</parameter>\n"
    "<parameter=arg2>\n2\n</parameter>\n</function>\n</tool_call>"
)
_QWEN_EDIT = (
    "<tool_call>\n<function=edit>\n<parameter=filename>\nfoo.c\n</parameter>\n<parameter=oldString>\n"
    '  if (a < "b") {\n</parameter>\n<parameter=newString>\n#include\n\n</parameter>\n'
    "<parameter=all>\ntrue\n</parameter>\n</function>\n</tool_call>"
)
_EDIT = (
    "edit",
    {"filename": "foo.c", "oldString": '  if (a < "b") {', "newString": "#include\n", "all": True},
    "",
)
_GLM_ONE = "<tool_call>special_function\n<arg_key>arg1</arg_key>\n<arg_value>1</arg_value>\n</tool_call>"
_GLM_TWO = (
    "<tool_call>special_function_with_opt<arg_key>arg1</arg_key><arg_value>1</arg_value>"
    "<arg_key>arg2</arg_key><arg_value>2</arg_value></tool_call>"
)
_M2_ONE = '<invoke name="special_function">\n<parameter name="arg1">1</parameter>\n</invoke>\n'
_M2_TWO = (
    '<invoke name="special_function_with_opt">\n<parameter name="arg1">1</parameter>\n'
    '<parameter name="arg2">2</parameter>\n</invoke>\n'
)
_CPM_ONE = '<function name="special_function"><param name="arg1">1</param></function>'
_CPM_CODE = (
    '<function name="python"><param name="code"><![CDATA[<a href="/x">hi</a> </param>]]></param></function>'
)


TAGGED_ANSWERS: tuple[Golden, ...] = (
    # Arguments in tags
    Golden("qwen3-coder", _QWEN_ONE, calls=(ONE,)),
    Golden("qwen3-coder", f"{_QWEN_ONE}\n{_QWEN_TWO}", calls=(ONE, TWO)),
    Golden("qwen3-coder", f"{HELLO}\n\n{_QWEN_EDIT}", HELLO, calls=(_EDIT,)),
    Golden("qwen3-coder", f"{THOUGHT}\n</think>\n\n{_QWEN_ONE}", None, THOUGHT, (ONE,), is_open=True),
    Golden("qwen3-coder", f"{THOUGHT}\n{_QWEN_ONE}", None, THOUGHT, (ONE,), is_open=True),
    Golden("qwen3-coder", _QWEN_ONE.removeprefix("<tool_call>\n"), calls=(ONE,)),
    Golden("qwen3-coder", "#include <functional>\n<function=x>", "#include <functional>\n<function=x>"),
    Golden(
        "qwen3-coder",
        "<tool_call>\n<function=get_time>\n<parameter=city>\nTok",
        calls=(("get_time", '{"city": "Tok', ""),),
        has_called=False,
    ),
    Golden(
        "qwen3-coder",
        "<tool_call>\n<function=note>\n<parameter=text>\nnull\n</parameter>\n<parameter=level>\n7\n</parameter>\n"
        "<parameter=more>\n[1, 2]\n</parameter>\n</function>\n</tool_call>",
        calls=(("note", {"text": None, "level": 7, "more": [1, 2]}, ""),),
    ),
    Golden(
        "qwen3-coder",
        "<tool_call>\n<function=note>\n<parameter=text>\nnullify\n</parameter>\n<parameter=level>\nhigh\n"
        "</parameter>\n</function>\n</tool_call>",
        calls=(("note", {"text": "nullify", "level": "high"}, ""),),
    ),
    Golden(
        "qwen3-coder",
        "<tool_call>\n<function=empty_args>\n</function>\n</tool_call>",
        calls=(("empty_args", {}, ""),),
    ),
    Golden("qwen3-coder", "<tool_call>\n<function>", "<tool_call>\n<function>"),
    Golden(
        "seed-oss",
        "<seed:think>Hm</seed:think>\nHi<seed:tool_call>\n<function=special_function>\n"
        "<parameter=arg1>1</parameter>\n</function>\n</seed:tool_call>\n<seed:tool_call>\n"
        '<function=todo>\n<parameter=items>[{"item": "Check", "done": false}]</parameter>\n</function>\n'
        "</seed:tool_call>",
        "Hi",
        "Hm",
        (ONE, ("todo", {"items": [{"item": "Check", "done": False}]}, "")),
    ),
    Golden(
        "seed-oss",
        "<seed:tool_call>\n<function=python>\n<parameter=code>def f():\n    pass\n</parameter>\n</function>\n"
        "</seed:tool_call>",
        calls=(("python", {"code": "def f():\n    pass\n"}, ""),),
    ),
    Golden("glm", _GLM_ONE, calls=(ONE,)),
    Golden("glm", f"{THOUGHT}</think>Hi{_GLM_ONE}\n{_GLM_TWO}", "Hi", THOUGHT, (ONE, TWO), is_open=True),
    Golden("glm", "<tool_call>empty_args</tool_call>", calls=(("empty_args", {}, ""),)),
    Golden(
        "glm",
        "<tool_call>get_time<arg_key>city</arg_key><arg_value>Tok",
        calls=(("get_time", '{"city": "Tok', ""),),
        has_called=False,
    ),
    Golden("glm", "<tool_call>{}", "<tool_call>{}"),
    Golden(
        "minimax-m2",
        f"{THOUGHT}\n</think>\n\n<minimax:tool_call>\n{_M2_ONE}{_M2_TWO}</minimax:tool_call>",
        None,
        THOUGHT,
        (ONE, TWO),
        is_open=True,
    ),
    Golden(
        "minimax-m2",
        'Hi<minimax:tool_call>\n<invoke name="empty_args">\n</invoke>\n</minimax:tool_call>',
        "Hi",
        calls=(("empty_args", {}, ""),),
    ),
    Golden(
        "minicpm5",
        f"{THOUGHT}</think>Hi{_CPM_ONE}\n{_CPM_CODE}",
        "Hi",
        THOUGHT,
        (ONE, ("python", {"code": '<a href="/x">hi</a> </param>'}, "")),
        is_open=True,
    ),
    Golden("minicpm5", '<function name="other"></function>', '<function name="other"></function>'),
)
