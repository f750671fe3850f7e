"""The child that asks llama.cpp for its devices, and what a model would take of them; for `doctor`.

    python -m skippy_site.provision.hardware_report [MODEL.gguf]

In a process of its own, because a build for another machine ends the process that loads it. Reads the
settings from the environment and prints one line of JSON. No weight is read.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from skippy_site.engine_settings import engine_config
from skippy_site.env import EnvironmentProblem, read_environment


@dataclass(frozen=True, slots=True)
class HardwareReport:
    """Lines for people; `problem` is empty where the settings can be used here."""

    devices: tuple[str, ...] = ()
    memory: tuple[str, ...] = ()
    problem: str = ""


def report(model: Path | None) -> HardwareReport:
    """What a service with the settings of this environment would find; `model` None: the devices alone."""
    from inference.engine.llama.devices import list_devices, list_gpus
    from inference.engine.llama.load_check import probe_shape
    from inference.engine.llama.memory import available_bytes
    from inference.engine.load_error import ModelLoadError
    from inference.engine.memory_plan import check_it_fits, plan_memory

    config = engine_config(read_environment())
    devices = tuple(map(str, list_devices()))
    memory: tuple[str, ...] = ()
    try:
        gpus = list_gpus()
        config.hardware.check_devices(gpus)
        if model is not None:
            shape = probe_shape(model)
            config.hardware.check_heads(key_length=shape.key_length, value_length=shape.value_length)
            plans = plan_memory(shape, config, gpus, available_bytes())
            memory = tuple(map(str, plans))
            check_it_fits(shape, config, plans)
    except ModelLoadError as problem:
        return HardwareReport(devices, memory, str(problem))
    return HardwareReport(devices, memory)


def main(arguments: list[str]) -> int:
    try:
        found = report(Path(arguments[0]) if arguments else None)
    except EnvironmentProblem as problem:
        found = HardwareReport(problem=str(problem))
    sys.stdout.write(json.dumps(asdict(found)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
