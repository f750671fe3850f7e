import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks.webhooks.failures import CallFailure
from hooks.webhooks.http_answer import HttpAnswer
from tests.webhook_receiver import answer

CHUNKED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
    b'5\r\n{"act\r\n9;x=y\r\nions":[]}\r\n0\r\nX-Trailer: a\r\n\r\n'
)
GOOD = [
    (answer(b"{}"), b"{}", True),
    (b"HTTP/1.1 100 Continue\r\nX: y\r\n\r\n" + answer(b"{}"), b"{}", True),
    (answer(b"", "204 No Content", Content_Type="", Content_Length=""), b"", True),
    (CHUNKED, b'{"actions":[]}', True),
    (answer(b"{}", Connection="close"), b"{}", False),
    (answer(b"{}").replace(b"HTTP/1.1", b"HTTP/1.0"), b"{}", False),
    (answer(b"{}") * 2, b"{}", False),
    (answer(b"{}") + b"stray", b"{}", False),
]


def fed(data, piece_bytes):
    made = HttpAnswer(1000)
    for start in range(0, len(data), piece_bytes):
        if not made.is_complete:
            made.feed(data[start : start + piece_bytes])
    return made


@pytest.mark.parametrize("piece_bytes", [1, 7, 10_000])
@pytest.mark.parametrize(("data", "body", "can_follow"), GOOD)
def test_an_answer_is_read_however_it_comes(data, body, can_follow, piece_bytes):
    made = fed(data, piece_bytes)

    assert made.is_complete
    assert bytes(made.body) == body
    # What comes later than the end is noticed by the connection.
    if piece_bytes == 10_000 or can_follow:
        assert made.can_follow is can_follow


def test_an_answer_without_a_length_ends_with_its_connection_and_one_with_a_length_does_not():
    made = fed(answer(b"{}", Content_Length=""), 10)
    assert not made.is_complete
    made.end()
    assert made.is_complete and not made.can_follow
    for data in (b"", answer(b"{}")[:20], answer(b"{}")[:-1], CHUNKED[:-2]):
        with pytest.raises(CallFailure):
            fed(data, 10).end()


@given(st.binary(max_size=300), st.integers(1, 50))
def test_any_bytes_are_an_answer_or_a_failure(data, piece_bytes):
    for given_bytes in (data, answer(b"{}")[:-10] + data, CHUNKED[:120] + data):
        try:
            made = fed(given_bytes, piece_bytes)
            if not made.is_complete:
                made.end()
        except CallFailure:
            continue
        assert made.is_complete
        assert len(made.body) <= 1000
