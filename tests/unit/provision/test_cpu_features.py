from pathlib import Path

import pytest

from skippy_site.provision.cpu_features import AMX_OPTIONS, X86_OPTIONS, Cpu, cmake_options, read_cpu

SAPPHIRE_RAPIDS = (
    "fpu sse4_2 avx f16c fma bmi2 avx2 avx_vnni avx512f avx512cd avx512vl avx512dq avx512bw avx512vbmi "
    "avx512_vnni avx512_bf16 avx512_fp16 amx_tile amx_int8 amx_bf16"
)
ZEN_3 = "fpu sse4_2 avx f16c fma bmi2 avx2 vaes"
KNIGHTS = "sse4_2 avx f16c fma bmi2 avx2 avx512f avx512cd"  # AVX-512, but not the parts that ggml asks for
OLD = "fpu sse sse2 ssse3"


def x86(flags: str) -> Cpu:
    return Cpu("Linux", "x86_64", "made up", frozenset(flags.split()))


def arm(flags: str) -> Cpu:
    return Cpu("Linux", "aarch64", "made up", frozenset(flags.split()))


def switched_on(cpu: Cpu, compiles: bool = True) -> set[str]:
    options = cmake_options(cpu, lambda flag: compiles)
    return {option.removeprefix("-D").removesuffix("=ON") for option in options if option.endswith("=ON")}


@pytest.mark.parametrize("flags", [SAPPHIRE_RAPIDS, ZEN_3, KNIGHTS, OLD])
def test_every_x86_option_is_named_and_native_and_amx_are_off(flags: str) -> None:
    options = cmake_options(x86(flags), lambda flag: True)
    assert options[0] == "-DGGML_NATIVE=OFF"
    named = {option.removeprefix("-D").partition("=")[0] for option in options[1:]}
    assert named == {*X86_OPTIONS, *AMX_OPTIONS}
    assert {f"-D{option}=OFF" for option in AMX_OPTIONS} <= set(options)


def test_a_cpu_with_everything_gets_everything_but_amx() -> None:
    assert switched_on(x86(SAPPHIRE_RAPIDS)) == set(X86_OPTIONS)


def test_a_cpu_without_avx512_gets_what_it_has() -> None:
    expected = {"GGML_SSE42", "GGML_AVX", "GGML_F16C", "GGML_FMA", "GGML_BMI2", "GGML_AVX2"}
    assert switched_on(x86(ZEN_3)) == expected
    assert switched_on(x86(KNIGHTS)) == expected


def test_an_old_cpu_gets_nothing() -> None:
    assert switched_on(x86(OLD)) == set()


def test_what_the_compiler_does_not_know_stays_off() -> None:
    assert switched_on(x86(SAPPHIRE_RAPIDS), compiles=False) == set()
    options = cmake_options(x86(SAPPHIRE_RAPIDS), lambda flag: flag != "-mavxvnni")
    assert "-DGGML_AVX_VNNI=OFF" in options
    assert "-DGGML_AVX512_VNNI=ON" in options


@pytest.mark.parametrize(
    ("flags", "architecture"),
    [
        ("fp asimd evtstrm aes crc32", "armv8-a"),
        ("fp asimd fphp asimdhp", "armv8-a"),  # no dotprod: the baseline
        ("fp asimd fphp asimdhp asimddp", "armv8.2-a+fp16+dotprod"),
        ("fp asimd fphp asimdhp asimddp i8mm sve bf16", "armv8.2-a+fp16+dotprod+i8mm+sve"),
        ("fp asimd fphp asimdhp asimddp i8mm", "armv8.2-a+fp16+dotprod+i8mm"),
    ],
)
def test_aarch64_names_its_architecture(flags: str, architecture: str) -> None:
    assert cmake_options(arm(flags), lambda flag: True) == (
        "-DGGML_NATIVE=OFF",
        f"-DGGML_CPU_ARM_ARCH={architecture}",
    )


@pytest.mark.parametrize(("system", "machine"), [("Darwin", "arm64"), ("Linux", "riscv64")])
def test_other_systems_leave_the_choice_to_ggml(system: str, machine: str) -> None:
    assert cmake_options(Cpu(system, machine, "", frozenset()), lambda flag: True) == ("-DGGML_NATIVE=ON",)


def test_the_flags_are_those_that_all_processors_have(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(
        "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t\t: fpu avx avx2 avx512f\n\n"
        "processor\t: 1\nmodel name\t: Some CPU @ 2 GHz\nflags\t\t: fpu avx avx2\n"
    )
    cpu = read_cpu(cpuinfo, system="Linux", machine="x86_64")
    assert cpu.model == "Some CPU @ 2 GHz"
    assert cpu.flags == {"fpu", "avx", "avx2"}
    assert cpu.relevant_flags == ("avx", "avx2")
    assert not cpu.has_amx


def test_an_arm_cpu_is_told_apart_by_its_numbers(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("Features\t: fp asimd asimddp\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n")
    cpu = read_cpu(cpuinfo, system="Linux", machine="aarch64")
    assert cpu.model == "implementer 0x41 part 0xd40"
    assert cpu.relevant_flags == ("asimddp",)


def test_a_system_without_cpuinfo_has_no_flags(tmp_path: Path) -> None:
    assert read_cpu(tmp_path / "absent", system="Linux", machine="x86_64").flags == frozenset()
