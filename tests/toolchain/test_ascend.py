"""Command lines for hardware, against the recorded ones, with a stand-in toolkit that makes real ELF files."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from pypto_build.facts.platforms import PLATFORMS
from pypto_build.toolchain import ToolchainError
from pypto_build.toolchain.ascend import find_toolkit, hardware_recipe, kernel_flags
from pypto_build.toolchain.simpler_tree import open_tree
from tests.interop.standins import STANDIN

KERNEL = 'extern "C" void kernel_entry(long* args) { *args = 1; }\n'
# ccec is called with "... -c SOURCE -o TARGET".
CCEC = """eval "t=\\${$#}"; n=$(($#-2)); eval "s=\\${$n}"
exec g++ -c -x c++ "$s" -o "$t" -fno-asynchronous-unwind-tables -fno-stack-protector"""
RUNTIME = "tensormap_and_ringbuffer"


def toolkit(home: Path) -> Path:
    """Programs that record their arguments and have the host's compiler do the work."""
    for name, work in (
        ("bin/ccec", CCEC),
        ("bin/ld.lld", 'exec ld "$@"'),
        ("tools/hcc/bin/aarch64-target-linux-gnu-g++", 'exec g++ "$@"'),
    ):
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f'#!/bin/sh\n[ "$1" = --version ] && echo "{path.name} 1.0" && exit\n'
            f'echo "{path.name} $*" >> {home}/commands\n{work}\n'
        )
        path.chmod(0o755)
    return home


def flags(arch: str, core: str, more: str = "") -> str:
    return (
        f"-O3 -g -x cce -Wall -std=c++17 --cce-aicore-only --cce-aicore-arch={arch}-{core} "
        "-mllvm -cce-aicore-stack-size=0x8000 -mllvm -cce-aicore-function-stack-size=0x8000 "
        "-mllvm -cce-aicore-record-overflow=false -mllvm -cce-aicore-addr-transform "
        f"-mllvm -cce-aicore-dcci-insert-for-scalar=false {more}-DMEMORY_BASE"
    )


@pytest.mark.parametrize(
    "platform, core, expected",
    [
        ("a2a3", "aiv", flags("dav-c220", "vec")),
        ("a2a3", "aic", flags("dav-c220", "cube")),
        ("a5", "aiv", flags("dav-c310", "vec", "-mllvm -cce-vf-aa-between-iters=true ")),
    ],
)
def test_flags_of_kernels(platform: str, core: str, expected: str) -> None:
    assert " ".join(kernel_flags(PLATFORMS[platform], core)) == expected


def test_a_kernel_becomes_machine_code(tmp_path: Path) -> None:
    home = toolkit(tmp_path / "toolkit")
    platform = PLATFORMS["a2a3"]
    recipe = hardware_recipe(
        find_toolkit(platform, {"ASCEND_HOME_PATH": str(home)}), open_tree(STANDIN), platform, RUNTIME
    )
    source, built = tmp_path / "k.cpp", str(tmp_path / "k.o")
    source.write_text(KERNEL)
    subprocess.run(recipe["aiv"].compile_argv(str(source), built), check=True)
    for step in recipe["aiv"].steps:
        target = str(tmp_path / f"k{step.suffix}")
        subprocess.run(step.argv(built, target), check=True)
        built = target
    assert (tmp_path / "k.bin").stat().st_size > 0
    runtime = STANDIN / "src" / "a2a3" / "runtime" / RUNTIME / "runtime"
    isa = STANDIN / "build" / "pto-isa" / "include"
    common = STANDIN / "src" / "common"
    dirs = " ".join(
        f"-I{path}" for path in (isa, isa / "pto", runtime, common / "task_interface", common) if path.is_dir()
    )
    assert (home / "commands").read_text().splitlines() == [
        f"ccec {flags('dav-c220', 'vec')} {dirs} -c {source} -o {tmp_path}/k.o",
        f"ld.lld -e kernel_entry -o {tmp_path}/k.elf {tmp_path}/k.o",
    ]


def test_an_orchestration_is_for_the_devices_cpu(tmp_path: Path) -> None:
    home = toolkit(tmp_path / "toolkit")
    platform = PLATFORMS["a2a3"]
    ascend = find_toolkit(platform, {"ASCEND_HOME_PATH": str(home)})
    recipe = hardware_recipe(ascend, open_tree(STANDIN), platform, RUNTIME)["orchestration"]
    words = recipe.compile_argv("o.cpp", "o.o")
    assert words[:6] == [str(ascend.device_cxx), "-fPIC", "-O3", "-g", "-std=c++17", "-fno-gnu-unique"]
    link = recipe.steps[0].argv("o.o", "o.so")
    common = STANDIN / "src" / "a2a3" / "runtime" / RUNTIME / "orchestration" / "common.cpp"
    assert link[6:10] == ["-shared", "-Wl,--build-id=sha1", "o.o", str(common)]


@pytest.mark.parametrize(
    "gone, message",
    [
        (
            "",
            (
                "the variable ASCEND_HOME_PATH is not set; set it to the toolkit's directory, or "
                "replay with PLATFORM=a5sim"
            ),
        ),
        *(
            (
                name,
                f"{{home}}/{name} does not exist; set ASCEND_HOME_PATH to a toolkit that has {name}, "
                "or replay with PLATFORM=a5sim",
            )
            for name in ("bin/ccec", "bin/ld.lld", "tools/hcc/bin/aarch64-target-linux-gnu-g++")
        ),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, gone: str, message: str) -> None:
    home = toolkit(tmp_path / "toolkit")
    if gone:
        os.unlink(home / gone)
    environment = {"ASCEND_HOME_PATH": str(home)} if gone else {}
    with pytest.raises(ToolchainError) as raised:
        find_toolkit(PLATFORMS["a5"], environment)
    assert str(raised.value) == f"PLATFORM=a5: {message.format(home=home)}"
