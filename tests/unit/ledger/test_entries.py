import pytest

from inference.ledger.entries import Closed, Ended, Opened, Progressed, decode, encode
from inference.ledger.rows import Progress
from tests.ledger_parts import row, summary

ENTRIES = [
    Opened(row("a\nb")),
    Ended(row("\u2028é")),
    Progressed((Progress.of(summary()), Progress.of(summary()))),
    Progressed(()),
    Closed((row().record_id, row().record_id)),
]


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_line_says_what_was_written(entry):
    line = encode(entry)

    assert line.count(b"\n") == 1
    assert decode(line) == entry


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_line_that_lacks_or_has_another_byte_is_not_read(entry):
    line = encode(entry)

    for cut in range(len(line)):
        with pytest.raises(ValueError):
            decode(line[:cut])
    for place in range(len(line) - 1):
        with pytest.raises(ValueError):
            decode(line[:place] + bytes([line[place] ^ 1]) + line[place + 1 :])


@pytest.mark.parametrize(
    "payload", [b"[]", b"{}", b'["end",{}]', b'["x",1]', b'["closed",[1]]', b'["progress",[[1]]]']
)
def test_whole_lines_that_mean_nothing_are_not_read(payload):
    import zlib

    with pytest.raises(ValueError):
        decode(b"%08x %s\n" % (zlib.crc32(payload), payload))
