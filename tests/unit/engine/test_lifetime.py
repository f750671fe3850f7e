from __future__ import annotations

import threading
import time

import pytest

from inference.domain.errors import ServiceUnavailable
from inference.engine.llama.lifetime import NativeLifetime


def test_it_is_freed_once_and_then_closed() -> None:
    freed: list[int] = []
    lifetime = NativeLifetime(lambda: freed.append(1))
    with lifetime:
        pass
    assert not lifetime.is_closed
    lifetime.close()
    lifetime.close()
    assert freed == [1]
    assert lifetime.is_closed
    with pytest.raises(ServiceUnavailable), lifetime:
        pytest.fail("nobody may enter")


def test_close_waits_for_those_inside() -> None:
    freed = threading.Event()
    lifetime = NativeLifetime(freed.set)
    is_inside, may_leave = threading.Event(), threading.Event()

    def use() -> None:
        with lifetime:
            is_inside.set()
            may_leave.wait(10)

    user = threading.Thread(target=use)
    user.start()
    assert is_inside.wait(10)
    closer = threading.Thread(target=lifetime.close)
    closer.start()
    time.sleep(0.02)
    assert not freed.is_set()
    may_leave.set()
    closer.join(10)
    user.join(10)
    assert freed.is_set()


def test_an_error_inside_lets_go() -> None:
    lifetime = NativeLifetime(lambda: None)
    with pytest.raises(KeyError), lifetime:
        raise KeyError
    lifetime.close()
    assert lifetime.is_closed
