from skippy_site.provision.llama_wheel import CompileProgress, num_jobs


class Shown:
    def __init__(self) -> None:
        self.texts: list[str] = []

    def update(self, text: str) -> None:
        self.texts.append(text)

    def say(self, text: str) -> None:
        raise AssertionError

    def end(self, text: str) -> None:
        raise AssertionError


def test_ninjas_steps_become_a_percentage() -> None:
    shown = Shown()
    progress = CompileProgress(shown)
    progress.see("  *** Configuring CMake...")
    progress.see("  [12/136] /usr/bin/g++ -DGGML -o x.o")
    progress.see("  some warning [1/2] in the middle of a line")
    progress.see("  [68/136] /usr/bin/g++ -o y.o")
    assert shown.texts[:2] == ["configuring", "compiling 9% (12 of 136)"]
    assert shown.texts[2].startswith("compiling 50% (68 of 136), about ")
    assert len(shown.texts) == 3


def test_makes_percentages_are_understood_too() -> None:
    shown = Shown()
    CompileProgress(shown).see("[  7%] Building CXX object ggml/src/x.o")
    assert shown.texts == ["compiling 7%"]


def test_there_is_always_a_compiler_at_work() -> None:
    assert num_jobs() >= 1
