from __future__ import annotations

import asyncio
import threading

import pytest

from inference.domain.constraint import Choice, ConstraintSpec, Grammar, OutputConstraint
from inference.domain.errors import InvalidRequest, UnsupportedParameter
from inference.services.constraints import NUM_THREADS, ConstraintDesk
from tests.scripted_engine import AnyConstraint, ScriptedCompiler


class SlowCompiler:
    """Compiles until it is let go."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.specs: list[ConstraintSpec] = []

    def compile(self, spec: ConstraintSpec) -> OutputConstraint:
        self.specs.append(spec)
        self.gate.wait(30)
        return AnyConstraint()


async def until(condition: object) -> None:
    assert callable(condition)
    while not condition():
        await asyncio.sleep(0.001)


async def test_a_refusal_names_the_field() -> None:
    desk, compiler = ConstraintDesk(), ScriptedCompiler()
    compiler.refusal = "Unimplemented keys: not"
    with pytest.raises(InvalidRequest) as caught:
        await desk.constraint_compile(compiler=compiler, spec=Choice(("a",)), user_id=1, param="json_schema")
    assert caught.value.param == "json_schema"
    assert "Unimplemented keys: not" in caught.value.message
    desk.close()


async def test_gbnf_needs_an_administrator() -> None:
    compiler, spec = ScriptedCompiler(), Grammar("root ::= x", is_gbnf=True)
    desk = ConstraintDesk()
    with pytest.raises(UnsupportedParameter) as caught:
        await desk.constraint_compile(compiler=compiler, spec=spec, user_id=1, param="grammar")
    assert caught.value.param == "grammar"
    assert not compiler.specs
    desk.close()
    desk = ConstraintDesk(allows_gbnf=True)
    await desk.constraint_compile(compiler=compiler, spec=spec, user_id=1, param="grammar")
    assert compiler.specs == [spec]
    desk.close()


async def test_one_that_takes_too_long_is_refused_and_keeps_its_turn_until_it_ends() -> None:
    slow, quick = SlowCompiler(), ScriptedCompiler()
    desk = ConstraintDesk(max_compile_s=0.01)
    for index in range(NUM_THREADS):
        with pytest.raises(InvalidRequest, match="too long"):
            await desk.constraint_compile(
                compiler=slow, spec=Choice((str(index),)), user_id=1, param="grammar"
            )
    other = asyncio.create_task(
        desk.constraint_compile(compiler=quick, spec=Choice(("b",)), user_id=2, param="grammar")
    )
    await asyncio.sleep(0.02)
    assert not quick.specs
    slow.gate.set()
    await other
    desk.close()


async def test_users_take_turns() -> None:
    slow = SlowCompiler()
    desk = ConstraintDesk()

    def ask(user_id: int, name: str) -> asyncio.Task[OutputConstraint]:
        spec = Choice((name,))
        return asyncio.create_task(
            desk.constraint_compile(compiler=slow, spec=spec, user_id=user_id, param="grammar")
        )

    tasks = [ask(1, f"first {index}") for index in range(8)]
    await until(lambda: len(slow.specs) == NUM_THREADS)
    tasks.append(ask(2, "second"))
    await asyncio.sleep(0)
    slow.gate.set()
    await asyncio.gather(*tasks)
    assert slow.specs.index(Choice(("second",))) <= NUM_THREADS + 1
    desk.close()


async def test_whoever_leaves_gives_the_turn_back() -> None:
    slow, quick = SlowCompiler(), ScriptedCompiler()
    desk = ConstraintDesk()
    tasks = [
        asyncio.create_task(
            desk.constraint_compile(compiler=slow, spec=Choice((str(index),)), user_id=1, param="grammar")
        )
        for index in range(NUM_THREADS + 1)
    ]
    await until(lambda: len(slow.specs) == NUM_THREADS)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert all(task.cancelled() for task in tasks)
    slow.gate.set()
    await desk.constraint_compile(compiler=quick, spec=Choice(("b",)), user_id=2, param="grammar")
    desk.close()
