"""Tells where a lock no longer says what its .in file asks for, without asking any index.

    python -m skippy_site.provision.requirement_check

A lock is in step if it pins everything that is asked for, at a version that fits, and nothing that
claims to be asked for and is not. It must have a hash for every pin and no address of any index.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

from skippy_site.provision.requirement_files import BUILD, DEV, FOLDER, PIN, RUNTIME, normalise

ADDRESS = re.compile(r"\w+://|--(?:extra-)?index-url|--find-links|--trusted-host")
ASKED_FOR = re.compile(r"^ {4}#(?: via| {3}) *-r (?P<file>\S+)$")


@dataclass(frozen=True, slots=True)
class Pin:
    """One entry of a lock: where it says that it comes from, and how many hashes it has."""

    name: str
    version: str
    asked_for_by: frozenset[str]
    num_hashes: int


def read_pins(lock: Path) -> list[Pin]:
    """All entries of a file that pip-compile wrote."""
    pins: list[Pin] = []
    for line in lock.read_text().splitlines():
        if found := PIN.match(line):
            pins.append(Pin(normalise(found["name"]), found["version"], frozenset(), 0))
        elif pins and "--hash=" in line:
            last = pins[-1]
            pins[-1] = Pin(last.name, last.version, last.asked_for_by, last.num_hashes + 1)
        elif pins and (asked := ASKED_FOR.match(line)):
            last = pins[-1]
            pins[-1] = Pin(last.name, last.version, last.asked_for_by | {asked["file"]}, last.num_hashes)
    return pins


def read_requirements(wanted: Path) -> list[Requirement]:
    """What an .in file itself asks for; lines that include other files are theirs to check."""
    lines = (line.partition(" #")[0].strip() for line in wanted.read_text().splitlines())
    return [Requirement(line) for line in lines if line and not line.startswith(("#", "-"))]


def differences(wanted: Path, lock: Path) -> Iterator[str]:
    """One line for each thing in which the lock is not what its .in file asks for."""
    pins = {pin.name: pin for pin in read_pins(lock)}
    asked = {normalise(requirement.name): requirement for requirement in read_requirements(wanted)}
    for name, requirement in asked.items():
        pin = pins.get(name)
        if pin is None:
            yield f"{lock.name} does not pin {name}, which {wanted.name} asks for"
        elif not requirement.specifier.contains(pin.version, prereleases=True):
            yield f"{lock.name} pins {name} {pin.version}, {wanted.name} asks for {requirement.specifier}"
    for name, pin in pins.items():
        if wanted.name in pin.asked_for_by and name not in asked:
            yield f"{lock.name} pins {name} for {wanted.name}, which does not ask for it"
    yield from weaknesses(lock)


def disagreements(dev: Path, runtime: Path) -> Iterator[str]:
    """Where the tests would run with other versions than the service."""
    for name, pin in {pin.name: pin for pin in read_pins(runtime)}.items():
        version = next((other.version for other in read_pins(dev) if other.name == name), None)
        if version != pin.version:
            yield f"{runtime.name} pins {name} {pin.version}, {dev.name} {version}"


def weaknesses(lock: Path) -> Iterator[str]:
    """Pins without a hash, and lines that name an index."""
    for pin in read_pins(lock):
        if pin.num_hashes == 0:
            yield f"{lock.name}: {pin.name} has no hash"
    for number, line in enumerate(lock.read_text().splitlines(), 1):
        if ADDRESS.search(line):
            yield f"{lock.name}:{number} names an address"


def main() -> int:
    found = [
        text
        for file in (BUILD, RUNTIME, DEV)
        for text in differences(file.path.with_suffix(".in"), file.path)
    ]
    found += disagreements(DEV.path, RUNTIME.path)
    locked = {BUILD.path, RUNTIME.path, DEV.path}
    for path in sorted(set(FOLDER.glob("*.txt")) - locked):
        found += weaknesses(path)
    for text in found:
        sys.stderr.write(f"requirements: {text}\n")
    if found:
        sys.stderr.write("What to do: `make lock`, and commit what it changed.\n")
        return 1
    sys.stdout.write("requirements: the locks are in step with the .in files\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
