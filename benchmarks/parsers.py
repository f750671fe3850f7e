"""What does reading calls and thinking cost a token, and does it grow with the text?

Each family's reader is given an answer with thinking, text and calls whose arguments are as long as is asked
for, in pieces of four characters, as tokens are on average; microseconds a token, best of `--repeats` runs.
The plain row is what a chat costs in which nothing is parsed.

    .venv/bin/python benchmarks/parsers.py [--lengths 1000,10000,100000] [--write]

--write puts the result beside this file.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

from servers import write_results  # noqa: E402

from inference.domain.reasoning import ReasoningOptions  # noqa: E402
from inference.domain.tools import ToolSpec, ToolUse  # noqa: E402
from inference.parsing.answer_reader import AnswerReader  # noqa: E402
from inference.parsing.formats.emulated import EMULATED  # noqa: E402
from inference.parsing.formats.message_format import MessageFormat  # noqa: E402
from inference.parsing.formats.registry import format_of  # noqa: E402
from tests.golden.answers import SOURCES  # noqa: E402
from tests.scripted_engine import ByteTokenizer  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "parsers.json"
TOKEN_CHARS = 4
TOOLS = ToolUse(
    (
        ToolSpec(
            "write",
            parameters={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        ),
    )
)
WORDS = 'Some text, with <tags>, {braces} and "quotes"; and more of it. '
FAMILIES: dict[str, str] = {
    "hermes": '<tool_call>\n{"name": "write", "arguments": {"text": "%s"}}\n</tool_call>',
    "devstral": '[TOOL_CALLS]write[ARGS]{"text": "%s"}',
    "llama-3": '{"name": "write", "parameters": {"text": "%s"}}',
    "qwen3-coder": (
        "<tool_call>\n<function=write>\n<parameter=text>\n%s\n</parameter>\n</function>\n</tool_call>"
    ),
    "glm": "<tool_call>write\n<arg_key>text</arg_key>\n<arg_value>%s</arg_value>\n</tool_call>",
    "lfm2": '<|tool_call_start|>[write(text="%s")]<|tool_call_end|>',
    "gemma-4": '<|tool_call>call:write{text:<|"|>%s<|"|>}<tool_call|>',
    "harmony": '<|channel|>commentary to=functions.write <|constrain|>json<|message|>{"text": "%s"}',
    "kimi-k2": (
        '<|tool_call_begin|>functions.write:0<|tool_call_argument_begin|>{"text": "%s"}<|tool_call_end|>'
    ),
    "emulated": 'TOOL_CALL {"name": "write", "arguments": {"text": "%s"}}',
}


class PieceTokenizer(ByteTokenizer):
    """A vocabulary of the pieces that one text is cut into."""

    def __init__(self, text: str) -> None:
        super().__init__()
        cut = [text[at : at + TOKEN_CHARS] for at in range(0, len(text), TOKEN_CHARS)]
        known = {piece: index for index, piece in enumerate(dict.fromkeys(cut))}
        self.pieces = [piece.encode() for piece in known]
        self.control_texts = {}
        self.token_ids = [known[piece] for piece in cut]


def filled(length: int, *, is_json: bool) -> str:
    text = (WORDS * (length // len(WORDS) + 1))[:length]
    return json.dumps(text)[1:-1] if is_json else text


def texts(family: str, length: int) -> dict[str, str]:
    """What is measured: one thing at a time, each as long as is asked for."""
    is_json = family not in {"qwen3-coder", "glm", "gemma-4"}
    call = FAMILIES[family] % filled(length, is_json=is_json).replace("<", "(")
    one = family_format(family)
    found = {"text": filled(length, is_json=False), "call": call}
    if one.thinking is not None:
        found["thinking"] = one.thinking.begin + filled(length, is_json=False)
    return found


def family_format(family: str) -> MessageFormat:
    return EMULATED if family == "emulated" else format_of(SOURCES[family])


def measure(make: Callable[[], AnswerReader], token_ids: list[int], repeats: int) -> float:
    """Microseconds a token, of the quickest run."""
    best = float("inf")
    for _ in range(repeats):
        reader = make()
        gc.collect()
        gc.disable()
        began = time.process_time()
        for token_id in token_ids:
            reader.feed((token_id,))
        reader.finish()
        best = min(best, time.process_time() - began)
        gc.enable()
    return best / len(token_ids) * 1e6


def run(lengths: list[int], repeats: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for length in lengths:
        tokenizer = PieceTokenizer(filled(length, is_json=False))
        cost = measure(lambda tokenizer=tokenizer: AnswerReader(tokenizer), tokenizer.token_ids, repeats)
        rows.append({"family": "plain", "what": "text", "length": length, "us_per_token": round(cost, 2)})
    for family in FAMILIES:
        for length in lengths:
            for what, text in texts(family, length).items():
                tokenizer = PieceTokenizer(text)

                def make(tokenizer: PieceTokenizer = tokenizer, family: str = family) -> AnswerReader:
                    parser = family_format(family).parser(TOOLS, ReasoningOptions())
                    return AnswerReader(tokenizer, parser=parser)

                cost = measure(make, tokenizer.token_ids, repeats)
                rows.append(
                    {"family": family, "what": what, "length": length, "us_per_token": round(cost, 2)}
                )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--lengths", default="1000,10000,100000", help="characters, separated by commas")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows = run([int(length) for length in options.lengths.split(",")], options.repeats)
    for row in rows:
        print(f"{row['family']:12} {row['what']:9} {row['length']:7} {row['us_per_token']:7.2f} µs")
    if options.write:
        write_results(RESULTS, {"us_per_token": rows})


if __name__ == "__main__":
    main()
