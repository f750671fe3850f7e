import json
import logging
import sys

from accounts.keys import mint
from inference.domain.request_context import current_request_id
from skippy_site.logging import JsonFormatter, LineFormatter


def record(message: str, **more) -> logging.LogRecord:
    made = logging.LogRecord("inference.test", logging.WARNING, "f.py", 1, message, (), None)
    made.__dict__.update(more)
    return made


def test_a_json_line_names_the_request_that_it_is_about():
    token = current_request_id.set("r-9")
    try:
        line = json.loads(JsonFormatter().format(record('says "so"\nand more')))
    finally:
        current_request_id.reset(token)

    assert line["request_id"] == "r-9"
    assert line["message"] == 'says "so"\nand more'
    assert (line["level"], line["logger"]) == ("warning", "inference.test")
    assert line["at"].endswith("Z")


def test_who_knows_the_request_better_says_so():
    assert json.loads(JsonFormatter().format(record("x", request_id="r-1")))["request_id"] == "r-1"
    assert "request_id" not in json.loads(JsonFormatter().format(record("x")))


def test_no_line_has_a_whole_key():
    key = mint().plaintext

    for formatter in (JsonFormatter(), LineFormatter("%(message)s")):
        assert key[20:] not in formatter.format(record(f"Bearer {key}"))


def test_no_traceback_has_a_whole_key():
    key = mint().plaintext
    try:
        raise ValueError(key)
    except ValueError:
        failed = record("failed", exc_info=sys.exc_info())

    for formatter in (JsonFormatter(), LineFormatter("%(message)s")):
        said = formatter.format(failed)
        assert "ValueError" in said
        assert key[20:] not in said
