"""The core with a host tier: what leaves the cells, what comes back, and what is told of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from inference.domain.adapters import AppliedAdapter, adapter_namespace
from inference.domain.cache_retention import CacheRetention
from inference.domain.errors import ServiceUnavailable
from inference.domain.events import Finished, Started
from inference.engine.cold_prefixes import retention_of
from inference.engine.config import EngineConfig
from inference.engine.disk_tier import DiskTier
from tests.unit.engine.scripted_engine_parts import Engine, RecordingSink, make_request, with_media

COMMON = tuple(range(10, 210))


def make_engine(*, num_lanes: int = 4, host_cache_bytes: int = 10_000_000, **config: float) -> Engine:
    sizes: dict[str, float] = {"max_batch_tokens": 64, "max_prefill_tokens_beside_decodes": 32, **config}
    return Engine(
        num_lanes=num_lanes,
        has_prefix_cache=True,
        host_cache_bytes=host_cache_bytes,
        **sizes,  # type: ignore[arg-type]
    )


def submit(
    engine: Engine, name: str, *more: int, max_tokens: int = 4, namespace: str = "", num_common: int = 200
) -> RecordingSink:
    prompt = (*COMMON[:num_common], *more)
    return engine.submit(make_request(name, prompt=prompt, max_tokens=max_tokens, namespace=namespace))


def num_cached(sink: RecordingSink) -> int:
    (started,) = [event for event in sink.events if isinstance(event, Started)]
    return started.num_cached_tokens


def num_prefilled(engine: Engine) -> int:
    return engine.core.statistics(is_alive=True).total_prefill_tokens


def empty_the_cells(engine: Engine) -> None:
    while engine.core._memory.evict_one():
        pass
    assert engine.runner.num_used_cells == 0


def cool_down(engine: Engine, name: str, *more: int, namespace: str = "") -> None:
    """A prompt was there and has left the cells again."""
    submit(engine, name, *more, namespace=namespace)
    engine.run()
    empty_the_cells(engine)


def test_what_left_the_cells_comes_back() -> None:
    engine = make_engine()
    cool_down(engine, "a", 500)
    before = num_prefilled(engine)
    sink = submit(engine, "b", 500, 501)
    engine.run()
    # Of the 201 tokens of the prompt before, 50 pieces of 4 are whole; the last one goes on with its answer.
    assert num_cached(sink) == 200
    assert num_prefilled(engine) - before == 2
    assert sink.token_ids == [100, 101, 102, 103]
    statistics = engine.core.statistics(is_alive=True).cold
    assert (statistics.total_restores, statistics.total_restored_tokens) == (1, 200)
    assert (statistics.num_pieces, statistics.total_failures) == (51 + 1, 0)
    engine.check_all_free()


def test_the_last_token_is_always_computed() -> None:
    engine = make_engine()
    cool_down(engine, "a")
    sink = submit(engine, "b")
    engine.run()
    assert num_cached(sink) == 199
    engine.check_all_free()


def test_what_the_cells_have_is_not_restored_again() -> None:
    engine = make_engine()
    cool_down(engine, "a", 500)
    submit(engine, "b", num_common=102)
    engine.run()
    assert len(engine.runner.loaded) == 25
    sink = submit(engine, "c", 501)
    engine.run()
    assert num_cached(sink) == 200
    assert engine.runner.loaded[25][1:] == (102, 104), "goes on in the middle of a piece"
    engine.check_all_free()


def test_namespaces_do_not_find_each_other() -> None:
    engine = make_engine()
    cool_down(engine, "a", 500)
    sink = submit(engine, "b", 500, namespace="other")
    engine.run()
    assert num_cached(sink) == 0
    assert not engine.runner.loaded


def test_followers_wait_for_the_one_that_is_restored_and_share_its_cells() -> None:
    engine = make_engine()
    cool_down(engine, "a", 500)
    sinks = [submit(engine, f"r{index}", 500, 600 + index) for index in range(4)]
    engine.run()
    assert [num_cached(sink) for sink in sinks] == [200, 201, 201, 201]
    assert len(engine.runner.loaded) == 50
    engine.check_all_free()


def test_a_restored_prefix_is_an_ordinary_entry_afterwards() -> None:
    engine = make_engine()
    cool_down(engine, "a", 500)
    submit(engine, "b", 500)
    engine.run()
    num_loaded = len(engine.runner.loaded)
    sink = submit(engine, "c", 501)
    engine.run()
    assert num_cached(sink) == 200
    assert len(engine.runner.loaded) == num_loaded
    engine.check_all_free()


def test_too_little_is_not_restored() -> None:
    engine = make_engine()
    cool_down(engine, "a", 500)
    sink = submit(engine, "b", 501, num_common=63)
    engine.run()
    assert num_cached(sink) == 0


@pytest.mark.parametrize("trouble", [False, OSError("gone")])
def test_a_restore_that_fails_leaves_what_it_brought_and_the_rest_is_computed(
    trouble: bool | Exception,
) -> None:
    engine = make_engine()
    cool_down(engine, "a", 500)
    engine.runner.state_troubles += [True] * 10 + [trouble]
    sink = submit(engine, "b", 500)
    engine.run()
    assert num_cached(sink) == 40
    assert sink.token_ids == [100, 101, 102, 103]
    statistics = engine.core.statistics(is_alive=True).cold
    assert (statistics.total_failures, statistics.total_restores) == (1, 0)
    # What was computed instead takes the place of the piece that failed.
    assert statistics.num_pieces == 51
    empty_the_cells(engine)
    again = submit(engine, "c", 500)
    engine.run()
    assert num_cached(again) == 200
    engine.check_all_free()


def test_a_spoilt_piece_never_reaches_the_model() -> None:
    engine = make_engine()
    cool_down(engine, "a", 500)
    engine.core._memory._cold._tier.pieces()[-3].data[20] ^= 4
    sink = submit(engine, "b", 500)
    engine.run()
    assert 0 < num_cached(sink) < 200
    assert engine.core.statistics(is_alive=True).cold.total_failures == 1
    engine.check_all_free()


@pytest.mark.parametrize("trouble", [False, OSError("gone")])
def test_a_save_that_fails_keeps_the_beginning(trouble: bool | Exception) -> None:
    engine = make_engine()
    # It is tried once more when the entry has to go.
    engine.runner.state_troubles += [True] * 30 + [trouble, trouble]
    cool_down(engine, "a", 500)
    sink = submit(engine, "b", 500)
    engine.run()
    assert num_cached(sink) == 120
    assert engine.core.statistics(is_alive=True).cold.total_failures == 2


def test_what_is_not_needed_is_saved_while_nobody_asks_for_anything() -> None:
    engine = make_engine()
    submit(engine, "a", 500)
    engine.run()
    assert len(engine.runner.saved) == 51
    assert not engine.core.step(), "and then there is nothing more to do"
    assert engine.core.statistics(is_alive=True).num_cells_cached == 204


def test_a_preempted_sequence_gets_its_state_back() -> None:
    engine = make_engine(num_cells=300, num_lanes=2, resume_headroom_tokens=1, max_cached_entries=0)
    sinks = [submit(engine, "a", 500, max_tokens=90, num_common=100)]
    other = tuple(range(300, 400))
    sinks.append(engine.submit(make_request("b", prompt=other, max_tokens=90)))
    engine.run()
    statistics = engine.core.statistics(is_alive=True)
    assert statistics.total_preemptions == 1
    assert statistics.cold.total_restores == 1
    # Both prompts once, and of the preempted one what did not fill a piece.
    assert statistics.total_prefill_tokens <= 201 + 4
    assert [sink.token_ids for sink in sinks] == [list(range(100, 190))] * 2
    engine.check_all_free()


def test_a_held_sequence_takes_what_it_has_got_so_far() -> None:
    engine = make_engine()
    cool_down(engine, "a", 500)
    sink = submit(engine, "b", 500)
    engine.hold("b")
    engine.core.step()
    engine.core.step()
    engine.resume("b")
    engine.run()
    assert sink.token_ids == [100, 101, 102, 103]
    engine.check_all_free()


def test_one_that_is_cancelled_while_it_is_restored_leaves_nothing() -> None:
    engine = make_engine(num_lanes=1)
    cool_down(engine, "a", 500)
    submit(engine, "b", 500)
    engine.core._let_in()
    engine.cancel("b")
    engine.run()
    empty_the_cells(engine)
    engine.check_all_free()
    sink = submit(engine, "c", 500)
    engine.run()
    assert isinstance(sink.endings[0], Finished)
    assert num_cached(sink) == 200


def test_only_what_comes_before_a_picture_is_kept() -> None:
    engine = make_engine(min_cached_tokens=8)
    prompt = (*COMMON[:50], *[0] * 20, *COMMON[50:100])
    for name in ("a", "b"):
        sink = engine.submit(with_media(make_request(name, prompt=prompt), (50, 20, "cat")))
        engine.run()
        empty_the_cells(engine)
    assert num_cached(sink) == 48
    engine.check_all_free()


def test_a_small_tier_keeps_beginnings() -> None:
    engine = make_engine()
    cool_down(engine, "a", 500)
    piece_bytes = engine.core.statistics(is_alive=True).cold.num_bytes // 51
    engine = make_engine(host_cache_bytes=30 * piece_bytes)
    cool_down(engine, "a", 500)
    sink = submit(engine, "b", 500)
    engine.run()
    assert 100 <= num_cached(sink) <= 120
    engine.check_all_free()


def test_no_bytes_mean_no_tier() -> None:
    engine = make_engine(host_cache_bytes=0)
    cool_down(engine, "a", 500)
    assert not engine.runner.saved
    sink = submit(engine, "b", 500)
    engine.run()
    assert num_cached(sink) == 0


def test_memory_that_cannot_be_shared_in_part_is_not_kept_in_pieces() -> None:
    engine = make_engine()
    engine.runner.num_piece_tokens = 0
    engine.core._memory.__init__(engine.runner, engine.config, now_ts=engine.clock.monotonic)  # type: ignore[misc]
    cool_down(engine, "a", 500)
    assert not engine.runner.saved


def test_a_scratch_sequence_is_made_where_there_is_place_for_it() -> None:
    config = EngineConfig(num_lanes=4, max_cached_entries=8, host_cache_bytes=1)
    assert (config.num_sequences, config.has_scratch_sequence) == (12, True)
    tight = EngineConfig(num_lanes=16, max_batch_tokens=32, max_cached_entries=64, host_cache_bytes=1)
    assert (tight.num_sequences, tight.has_scratch_sequence) == (31, True)
    full = EngineConfig(num_lanes=256, num_cells=512, host_cache_bytes=1)
    assert (full.num_sequences, full.has_scratch_sequence) == (256, False)
    assert not EngineConfig().has_scratch_sequence


# -- with a disk ----------------------------------------------------------------------------------


def run_with_disk(engine: Engine) -> None:
    """As the engine thread does it: where there is nothing to do, somebody may still be waited for."""
    for _ in range(2000):
        if not engine.core.step():
            if engine.core.statistics(is_alive=True).is_idle:
                return
            time.sleep(0.005)
    raise AssertionError(f"still busy: {engine.core!r}")


def disk_of(engine: Engine) -> DiskTier:
    disk = engine.core._memory._cold._disk
    assert disk is not None
    return disk


@pytest.fixture
def make_disk_engine(tmp_path: Path) -> Iterator[Callable[..., Engine]]:
    made: list[Engine] = []

    def make(**config: float) -> Engine:
        folder: dict[str, object] = {"disk_cache_dir": str(tmp_path / "cache"), "disk_cache_bytes": 1 << 24}
        made.append(make_engine(**config, **folder))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for engine in made:
        stop(engine)


def stop(engine: Engine) -> None:
    disk = disk_of(engine)
    engine.core.abandon(ServiceUnavailable("stopping"), [])
    assert disk.wait_closed()


def test_what_host_memory_has_no_room_for_comes_back_from_the_disk(
    make_disk_engine: Callable[..., Engine],
) -> None:
    engine = make_disk_engine(host_cache_bytes=20_000)
    for index, namespace in enumerate("abc"):
        cool_down(engine, f"r{index}", 500, namespace=namespace)
        assert disk_of(engine).wait_idle(10)
    sink = submit(engine, "again", 500, namespace="a")
    run_with_disk(engine)
    assert num_cached(sink) >= 64
    assert sink.token_ids == [100, 101, 102, 103]
    statistics = engine.core.statistics(is_alive=True).cold
    assert statistics.disk.total_reads > 0
    assert statistics.disk.total_damaged == statistics.disk.total_failures == 0
    engine.check_all_free()


@pytest.mark.parametrize(
    ("retention", "expected"),
    [(CacheRetention.DAY, 200), (CacheRetention.UNSAID, 0), (CacheRetention.IN_MEMORY, 0)],
)
def test_what_is_kept_for_a_day_outlives_a_restart(
    make_disk_engine: Callable[..., Engine], retention: CacheRetention, expected: int
) -> None:
    engine = make_disk_engine()
    request = make_request("a", prompt=(*COMMON, 500))
    engine.submit(replace(request, cache_retention=retention))
    engine.run()
    stop(engine)
    again = make_disk_engine()
    for _ in range(1000):
        if not expected or disk_of(again).statistics.num_files:
            break
        time.sleep(0.005)
    sink = submit(again, "b", 500)
    run_with_disk(again)
    assert num_cached(sink) == expected
    assert sink.token_ids == [100, 101, 102, 103]
    again.check_all_free()


def test_what_an_adapter_had_a_part_in_is_never_written() -> None:
    adapters = (AppliedAdapter(name="tone", scale=1.0),)
    request = make_request("a", prompt=(*COMMON, 500), namespace=adapter_namespace(adapters))
    request = replace(request, adapters=adapters, cache_retention=CacheRetention.DAY)
    assert retention_of(request) is CacheRetention.IN_MEMORY


def test_damaged_files_are_computed_instead(make_disk_engine: Callable[..., Engine], tmp_path: Path) -> None:
    engine = make_disk_engine()
    request = make_request("a", prompt=(*COMMON, 500))
    engine.submit(replace(request, cache_retention=CacheRetention.DAY))
    engine.run()
    stop(engine)
    for path in (tmp_path / "cache").rglob("*.day"):
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
    again = make_disk_engine()
    for _ in range(1000):
        if disk_of(again).statistics.num_files:
            break
        time.sleep(0.005)
    sink = submit(again, "b", 500)
    run_with_disk(again)
    assert num_cached(sink) == 0
    assert sink.token_ids == [100, 101, 102, 103]
    assert again.core.statistics(is_alive=True).cold.disk.total_damaged > 0
    again.check_all_free()


def test_a_disk_that_does_not_answer_is_not_waited_for_long(
    make_disk_engine: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_disk_engine(host_cache_bytes=20_000)
    for index, namespace in enumerate("abc"):
        cool_down(engine, f"r{index}", 500, namespace=namespace)
        assert disk_of(engine).wait_idle(10)
    disk = disk_of(engine)
    monkeypatch.setattr(disk, "read", lambda keys: None)
    sink = submit(engine, "again", 500, namespace="a")
    for _ in range(5):
        engine.core.step()
    assert not sink.token_ids
    engine.clock.now_s += 3
    run_with_disk(engine)
    assert sink.token_ids == [100, 101, 102, 103]
    engine.check_all_free()


def test_a_folder_that_cannot_be_used_leaves_the_host_tier(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folder: dict[str, object] = {"disk_cache_dir": str(tmp_path / "file"), "disk_cache_bytes": 1 << 24}
    engine = make_engine(**folder)  # type: ignore[arg-type]
    cool_down(engine, "a", 500)
    sink = submit(engine, "b", 500)
    engine.run()
    assert num_cached(sink) == 200
