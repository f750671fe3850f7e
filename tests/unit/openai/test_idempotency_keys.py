import hashlib

import pytest

from inference.domain.errors import InvalidRequest
from inference.openai.idempotency_keys import body_digest, idempotency_name


def name(*values: bytes):
    return idempotency_name([(b"host", b"x"), *((b"idempotency-key", value) for value in values)])


def test_the_name_is_hashed_and_blanks_around_it_do_not_count():
    assert name() is None
    assert name(b"abc") == name(b" abc\t") == hashlib.sha256(b"abc").digest()
    assert name(b"abc", b"abc") == name(b"abc") != name(b"abd")
    assert name(b"x" * 255) is not None
    assert name("é".encode()) is not None


@pytest.mark.parametrize("values", [[b""], [b"  "], [b"x" * 256], [b"a\x01"], [b"a\x7f"], [b"a", b"b"]])
def test_other_names_are_refused(values):
    with pytest.raises(InvalidRequest, match="Idempotency-Key"):
        name(*values)


def test_endpoint_and_body_tell_requests_apart():
    digests = {body_digest(*one) for one in (("a", b"b"), ("a", b"b "), ("b", b"b"), ("ab", b""), ("a", b""))}
    assert len(digests) == 5
