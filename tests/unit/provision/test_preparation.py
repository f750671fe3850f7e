import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from skippy_site.provision.preparation import Goal, wait_for_all
from skippy_site.provision.problem import Interrupted, ProvisionProblem
from skippy_site.provision.requirement_files import DEV, RUNTIME
from skippy_site.state import CHECKOUT

BEFORE_DEPENDENCIES = ("__main__", "preparation", "doctor", "model_source", "machine_checks", "requantize")


def test_a_service_with_a_model_of_its_own_needs_no_default_one() -> None:
    assert Goal.serving({}).wants_model
    assert not Goal.serving({"SKIPPY_MODEL": "/a/model.gguf"}).wants_model
    assert Goal.serving({}).lock == RUNTIME


def test_tests_take_everything_from_the_checkout() -> None:
    goal = Goal.testing()
    assert (goal.lock, goal.wants_llama, goal.wants_model) == (DEV, True, True)
    assert goal.state.root == CHECKOUT / ".skippy"


def test_checks_need_no_build() -> None:
    goal = Goal.checking()
    assert (goal.lock, goal.wants_llama, goal.wants_model) == (DEV, False, False)


def test_the_first_real_failure_is_raised_not_the_interruptions_that_it_caused() -> None:
    def fail(problem: Exception) -> None:
        raise problem

    with ThreadPoolExecutor() as pool:
        futures = [pool.submit(fail, Interrupted()), pool.submit(fail, ProvisionProblem("no network"))]
        with pytest.raises(ProvisionProblem, match="no network"):
            wait_for_all(futures)
        with pytest.raises(Interrupted):
            wait_for_all(futures[:1])
        wait_for_all([pool.submit(int)])


def test_it_starts_without_any_package_installed() -> None:
    imports = "; ".join(f"import skippy_site.provision.{name}" for name in BEFORE_DEPENDENCIES)
    # -I -S: no site-packages, no environment, only the standard library and the checkout.
    script = f"import sys; sys.path.insert(0, {str(CHECKOUT)!r}); {imports}"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
