import pytest

from inference.domain.errors import InvalidRequest
from inference.openai.session_ids import has_header, session_id

NAME = b"x-agent-session"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], None),
        ([b"agent-42"], "agent-42"),
        ([b"  agent-42\t"], "agent-42"),
        ([b"a", b"a"], "a"),
        ([b"x" * 512], "x" * 512),
        (["é".encode() * 256], "é" * 256),
        ([" 😸 ".encode()], "😸"),
    ],
)
def test_the_session_that_a_header_names(values, expected):
    headers = [(b"authorization", b"x"), *[(NAME, value) for value in values]]

    assert session_id(headers, NAME) == expected
    assert has_header(headers, NAME) == bool(values)


@pytest.mark.parametrize(
    "values",
    [
        [b""],
        [b"  "],
        [b"x" * 513],
        ["é".encode() * 257],
        [b"a\x00b"],
        [b"a\x1bb"],
        [b"a\x7fb"],
        ["a\x85b".encode()],
        [b"\xff\xfe"],
        ["\ud83d".encode("utf-8", "surrogatepass")],
        [b"a", b"b"],
    ],
)
def test_what_cannot_name_a_session_is_refused(values):
    with pytest.raises(InvalidRequest) as caught:
        session_id([(NAME, value) for value in values], NAME)
    assert caught.value.message.startswith("The header x-agent-session")


def test_without_a_configured_header_nothing_names_a_session():
    headers = [(b"", b"a"), (NAME, b"\xff")]

    assert session_id(headers, b"") is None
    assert not has_header(headers, b"")
    assert session_id(headers, b"x-other") is None
