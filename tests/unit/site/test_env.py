import pytest

from skippy_site.env import Environment, EnvironmentProblem, read_environment, variable_name


def test_defaults_are_those_of_the_documentation():
    found = read_environment({})

    assert (found.host, found.port, found.lanes, found.context) == ("127.0.0.1", 8000, 16, 16_384)
    assert (found.server, found.model, found.max_body_bytes) == ("daphne", "", 32 * 1024 * 1024)
    assert (found.max_queue, found.connection_limit) == (128, 1024)


def test_values_are_converted_and_empty_ones_are_absent():
    found = read_environment(
        {
            "SKIPPY_PORT": " 9001 ",
            "SKIPPY_LANES": "",
            "SKIPPY_STRICT_FIELDS": "yes",
            "SKIPPY_DRAIN_GRACE_S": "2.5",
            "DATABASE_URL": "postgresql://a@b/c",
            "SKIPPY_SOMETHING_NEWER": "1",
        }
    )

    assert (found.port, found.lanes, found.strict_fields, found.drain_grace_s) == (9001, 16, True, 2.5)
    assert found.database_url == "postgresql://a@b/c"


def test_prefixes_are_cached_and_users_kept_apart_unless_told():
    found = read_environment({})
    assert (found.prefix_cache, found.shared_prefixes) == (True, False)
    found = read_environment({"SKIPPY_PREFIX_CACHE": "off", "SKIPPY_SHARED_PREFIXES": "yes"})
    assert (found.prefix_cache, found.shared_prefixes) == (False, True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SKIPPY_PORT", "eighty"),
        ("SKIPPY_PORT", "0"),
        ("SKIPPY_PORT", "70000"),
        ("SKIPPY_PORT", "8000.5"),
        ("SKIPPY_LANES", "0"),
        ("SKIPPY_LANES", "251"),
        ("SKIPPY_CONTEXT", "-1"),
        ("SKIPPY_SERVER", "gunicorn"),
        ("SKIPPY_DRAIN_GRACE_S", "nan"),
        ("SKIPPY_STRICT_FIELDS", "maybe"),
        ("SKIPPY_PREFIX_CACHE", "maybe"),
        ("SKIPPY_PUBLIC_URL", "example.org"),
        ("SKIPPY_PUBLIC_URL", "ftp://example.org"),
        ("SKIPPY_TRUSTED_PROXIES", "10.0.0.0/8, proxy"),
        ("DATABASE_URL", "mysql://a@b/c"),
        ("REDIS_URL", "http://a"),
        ("SKIPPY_LOG_LEVEL", "loud"),
        ("SKIPPY_ADMISSION_TIMEOUT_S", "-1"),
        ("SKIPPY_REQUEST_TIMEOUT_S", "never"),
        ("SKIPPY_STALL_TIMEOUT_S", "0"),
        ("SKIPPY_STALL_TIMEOUT_S", "61"),
        ("SKIPPY_KEEP_ALIVE_S", "inf"),
        ("SKIPPY_EARLY_HEADERS_S", "-0.1"),
        ("SKIPPY_SESSION_HEADER", "x session"),
        ("SKIPPY_SESSION_HEADER", "x-session:"),
        ("SKIPPY_SESSION_HEADER", "Sitzungsübersicht"),
        ("SKIPPY_SESSION_HEADER", "Authorization"),
    ],
)
def test_a_wrong_value_is_one_line_that_names_the_variable(name, value):
    with pytest.raises(EnvironmentProblem) as problem:
        read_environment({name: value})

    assert name in str(problem.value)
    assert "\n" not in str(problem.value)


def test_the_password_of_a_wrong_url_is_not_repeated():
    with pytest.raises(EnvironmentProblem) as problem:
        read_environment({"DATABASE_URL": "mysql://user:hunter2@host/db"})

    assert "hunter2" not in str(problem.value)


@pytest.mark.parametrize(("lanes", "queue"), [(1, 16), (16, 128), (64, 256)])
def test_connections_are_never_fewer_than_queue_and_lanes(lanes, queue):
    found = read_environment({"SKIPPY_LANES": str(lanes), "SKIPPY_MAX_CONNECTIONS": "1"})

    assert found.max_queue == queue
    assert found.connection_limit == lanes + queue


def test_every_setting_has_a_name_and_a_description():
    names = {variable_name(field) for field in Environment.__struct_fields__}

    assert {"SKIPPY_HOME", "SKIPPY_MODEL", "DATABASE_URL", "REDIS_URL", "CELERY_BROKER_URL"} <= names
