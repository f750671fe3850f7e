from dataclasses import replace
from typing import get_args, get_type_hints

import pytest

from inference.admission.concurrency import ConcurrencySettings
from inference.engine.config import EngineConfig
from inference.engine.hardware import (
    ALL_LAYERS,
    FlashAttention,
    HardwareConfig,
    KvType,
    LoadMode,
    SplitMode,
)
from inference.engine.host_memory import default_host_cache_bytes
from skippy_site.engine_settings import engine_config
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


def test_the_adaptive_limit_is_off_and_starts_with_the_lanes_unless_told():
    assert read_environment({}).concurrency == ConcurrencySettings()
    found = read_environment(
        {
            "SKIPPY_ADAPTIVE_CONCURRENCY": "on",
            "SKIPPY_ADAPTIVE_INITIAL_LIMIT": "2",
            "SKIPPY_ADAPTIVE_WINDOW": "32",
            "SKIPPY_ADAPTIVE_MIN_IMPROVEMENT": "0.05",
            "SKIPPY_ADAPTIVE_MAX_LATENCY_REGRESSION": "0.2",
            "SKIPPY_ADAPTIVE_MAX_HARDWARE_REGRESSION": "0.3",
            "SKIPPY_ADAPTIVE_COOLDOWN_WINDOWS": "4",
            "SKIPPY_ADAPTIVE_RELIEF_WINDOWS": "6",
            "SKIPPY_ADAPTIVE_IDLE_RESET_S": "7.5",
        }
    )
    assert found.concurrency == ConcurrencySettings(True, 2, 32, 0.05, 0.2, 0.3, 4, 6, 7.5)
    with pytest.raises(
        EnvironmentProblem, match="SKIPPY_ADAPTIVE_INITIAL_LIMIT: 5 is more than SKIPPY_LANES, 4"
    ):
        read_environment({"SKIPPY_LANES": "4", "SKIPPY_ADAPTIVE_INITIAL_LIMIT": "5"})


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
        ("SKIPPY_ADAPTIVE_WINDOW", "0"),
        ("SKIPPY_ADAPTIVE_MIN_IMPROVEMENT", "-0.1"),
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
        ("SKIPPY_BATCH", "31"),
        ("SKIPPY_MICRO_BATCH", "0"),
        ("SKIPPY_BATCH_THREADS", "-1"),
        ("SKIPPY_GPU_LAYERS", "most"),
        ("SKIPPY_GPU_LAYERS", "-2"),
        ("SKIPPY_GPU_LAYERS", "1e3"),
        ("SKIPPY_GPU_LAYERS", "9" * 5000),
        ("SKIPPY_SPLIT_MODE", "tensor"),
        ("SKIPPY_TENSOR_SPLIT", "1,,2"),
        ("SKIPPY_TENSOR_SPLIT", "1;2"),
        ("SKIPPY_TENSOR_SPLIT", "1,-2"),
        ("SKIPPY_TENSOR_SPLIT", "nan"),
        ("SKIPPY_TENSOR_SPLIT", "0,0"),
        ("SKIPPY_MAIN_GPU", "-1"),
        ("SKIPPY_MAIN_GPU", "1"),
        ("SKIPPY_KV_TYPE_K", "q3_k"),
        ("SKIPPY_KV_TYPE_V", "f8"),
        ("SKIPPY_FLASH_ATTENTION", "yes"),
        ("SKIPPY_LOAD_MODE", "fast"),
        ("SKIPPY_WATCHDOG_S", "-1"),
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


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"SKIPPY_KV_TYPE_V": "q8_0", "SKIPPY_FLASH_ATTENTION": "off"}, "SKIPPY_FLASH_ATTENTION must not"),
        ({"SKIPPY_SPLIT_MODE": "none", "SKIPPY_TENSOR_SPLIT": "1,2"}, "SKIPPY_TENSOR_SPLIT must be left out"),
        ({"SKIPPY_CORS_ORIGINS": "https://app.example/"}, "SKIPPY_CORS_ORIGINS: 'https://app.example/' is"),
        ({"SKIPPY_CORS_ORIGINS": "*, https://app.example"}, "SKIPPY_CORS_ORIGINS: \\* stands for all"),
        ({"SKIPPY_CORS_ORIGINS": "https://a.example,null"}, "SKIPPY_CORS_ORIGINS: null is"),
        ({"SKIPPY_MAIN_GPU": "1", "SKIPPY_SPLIT_MODE": "row"}, "SKIPPY_MAIN_GPU must be left out unless"),
        (
            {"SKIPPY_LANES": "100", "SKIPPY_BATCH": "64"},
            "SKIPPY_BATCH must be at least 32",
        ),
    ],
)
def test_settings_that_do_not_go_together_are_one_line_that_names_them(given, words):
    with pytest.raises(EnvironmentProblem, match=words) as problem:
        read_environment(given)

    assert "\n" not in str(problem.value)


def test_the_engine_gets_what_the_settings_say():
    found = read_environment(
        {
            "SKIPPY_LANES": "4",
            "SKIPPY_CONTEXT": "256",
            "SKIPPY_THREADS": "2",
            "SKIPPY_BATCH_THREADS": "3",
            "SKIPPY_MICRO_BATCH": "64",
            "SKIPPY_GPU_LAYERS": "All",
            "SKIPPY_SPLIT_MODE": "row",
            "SKIPPY_TENSOR_SPLIT": "3, 1",
            "SKIPPY_KV_TYPE_K": "q8_0",
            "SKIPPY_KV_TYPE_V": "bf16",
            "SKIPPY_FLASH_ATTENTION": "on",
            "SKIPPY_LOAD_MODE": "mlock",
            "SKIPPY_SWA_FULL": "no",
            "SKIPPY_PREFIX_CACHE": "no",
            "SKIPPY_HOST_CACHE_BYTES": "1000",
        }
    )
    config = engine_config(found)

    assert (config.num_lanes, config.num_cells, config.has_prefix_cache) == (4, 256, False)
    assert config.host_cache_bytes == 1000
    assert (config.effective_threads, config.effective_batch_threads) == (2, 3)
    # A batch that is larger than the memory would be cut down behind the scheduler's back.
    assert (config.max_batch_tokens, config.max_ubatch_tokens) == (256, 64)
    assert config.hardware == HardwareConfig(
        gpu_layers=ALL_LAYERS,
        split_mode=SplitMode.ROW,
        tensor_split=(3.0, 1.0),
        key_type=KvType.Q8_0,
        value_type=KvType.BF16,
        flash_attention=FlashAttention.ON,
        load_mode=LoadMode.MLOCK,
        has_full_window=False,
    )


def test_the_host_tier_has_a_size_of_the_machine_unless_one_is_given():
    assert engine_config(read_environment({})).host_cache_bytes == default_host_cache_bytes()
    assert engine_config(read_environment({"SKIPPY_HOST_CACHE_BYTES": "0"})).host_cache_bytes == 0


def test_every_choice_of_a_setting_is_one_of_the_engine():
    hints = get_type_hints(Environment)
    assert set(get_args(hints["kv_type_k"])) == {one.value for one in KvType}
    assert set(get_args(hints["kv_type_v"])) == {one.value for one in KvType}
    assert set(get_args(hints["split_mode"])) == {one.value for one in SplitMode}
    assert set(get_args(hints["flash_attention"])) == {one.value for one in FlashAttention}
    assert set(get_args(hints["load_mode"])) == {one.value for one in LoadMode}


def test_without_settings_the_engine_has_its_own_defaults():
    own = replace(engine_config(read_environment({})), host_cache_bytes=0)
    assert own == EngineConfig()
