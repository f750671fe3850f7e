import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from skippy_site.provision.wheel_cache import BuildKey, WheelCache, default_cache_folder

KEY = BuildKey("1.0", "-DGGML_AVX=ON", "cc 12", "x86_64", "linux-x86_64", "cpython3.11")
NAME = "llama_cpp_python-1.0-py3-none-linux_x86_64.whl"


@pytest.fixture
def cache(tmp_path: Path) -> WheelCache:
    return WheelCache(tmp_path / "wheels")


def publish(cache: WheelCache, key: BuildKey, content: bytes = b"wheel") -> None:
    with cache.building(key, waiting=lambda: None) as scratch:
        (scratch / NAME).write_bytes(content)
        cache.publish(key, scratch / NAME, notes={"cpu": "made up"})


def test_a_published_wheel_is_found_under_its_key_alone(cache: WheelCache) -> None:
    assert cache.find(KEY) is None
    publish(cache, KEY)
    found = cache.find(KEY)
    assert found is not None
    assert found.path.name == NAME
    assert found.path.read_bytes() == b"wheel"
    assert cache.find(replace(KEY, cmake_args="-DGGML_AVX=OFF")) is None
    assert cache.find(replace(KEY, flags=(("CFLAGS", "-O1"),))) is None


def test_a_wheel_that_changed_in_the_cache_is_not_used(cache: WheelCache) -> None:
    publish(cache, KEY)
    found = cache.find(KEY)
    assert found is not None
    found.path.write_bytes(b"other")
    assert cache.find(KEY) is None


def test_half_an_entry_is_none(cache: WheelCache) -> None:
    cache.place_of(KEY).mkdir(parents=True)
    (cache.place_of(KEY) / NAME).write_bytes(b"wheel")
    assert cache.find(KEY) is None
    (cache.place_of(KEY) / "build.json").write_text("[]")
    assert cache.find(KEY) is None


def test_a_new_build_takes_the_old_ones_place(cache: WheelCache) -> None:
    publish(cache, KEY, b"first")
    publish(cache, KEY, b"second")
    found = cache.find(KEY)
    assert found is not None
    assert found.path.read_bytes() == b"second"


def test_nothing_but_the_wheel_is_left_of_a_build(cache: WheelCache) -> None:
    publish(cache, KEY)
    with pytest.raises(RuntimeError), cache.building(KEY, waiting=lambda: None) as scratch:
        (scratch / "half").write_text("")
        raise RuntimeError("the compiler failed")
    left = {path.name for path in cache.folder.iterdir() if path.is_dir()}
    assert left == {KEY.folder_name}


def test_what_a_killed_builder_left_is_cleared_away(cache: WheelCache) -> None:
    dead = cache.folder / f".{KEY.folder_name}-dead"
    dead.mkdir(parents=True)
    (dead / "object.o").write_text("")
    publish(cache, KEY)
    assert not dead.exists()


def test_one_builder_works_at_a_time_and_the_other_finds_its_wheel(cache: WheelCache) -> None:
    has_begun = threading.Event()
    waited = threading.Event()

    def first() -> None:
        with cache.building(KEY, waiting=lambda: None) as scratch:
            has_begun.set()
            assert waited.wait(10)
            (scratch / NAME).write_bytes(b"wheel")
            cache.publish(KEY, scratch / NAME, notes={})

    thread = threading.Thread(target=first)
    thread.start()
    assert has_begun.wait(10)
    began_ts = time.monotonic()
    with cache.building(KEY, waiting=waited.set):
        assert cache.find(KEY) is not None
    thread.join()
    assert waited.is_set()
    assert time.monotonic() - began_ts < 5


def test_the_cache_is_where_xdg_says(tmp_path: Path) -> None:
    assert default_cache_folder({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "skippy" / "wheels"
    home = Path("~/.cache/skippy/wheels").expanduser()
    assert default_cache_folder({}) == home
    assert default_cache_folder({"XDG_CACHE_HOME": "relative/is/ignored"}) == home


def test_a_user_without_a_home_has_the_cache_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "a file").touch()
    nowhere = {"XDG_CACHE_HOME": str(tmp_path / "a file")}
    assert WheelCache.of_user(nowhere, otherwise=tmp_path / "here").folder == tmp_path / "here"
    somewhere = {"XDG_CACHE_HOME": str(tmp_path)}
    assert WheelCache.of_user(somewhere, otherwise=tmp_path / "here").folder == tmp_path / "skippy" / "wheels"
