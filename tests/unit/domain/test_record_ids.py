from datetime import UTC, datetime, timedelta

from inference.domain.record_ids import new_record_id

NOW = datetime(2026, 11, 29, 17, 0, tzinfo=UTC)


def test_ids_are_version_7_and_say_when():
    record_id = new_record_id(NOW)

    assert (record_id.version, record_id.variant) == (7, "specified in RFC 4122")
    assert record_id.int >> 80 == int(NOW.timestamp() * 1000)


def test_ids_of_one_instant_differ_and_later_ones_are_greater():
    ids = {new_record_id(NOW) for _ in range(1000)}

    assert len(ids) == 1000
    assert new_record_id(NOW + timedelta(milliseconds=1)) > max(ids)
