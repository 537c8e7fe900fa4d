"""The runtime and the kernels of the example artifacts under ThreadSanitizer or AddressSanitizer, or on another kind of
processor.

    python -m tests.runtime.sanitize thread|address|undefined|aarch64 [ARTIFACT_DIR ...]

Compiles runtime, kernels and orchestration with the sanitizer, runs each artifact on four threads (plainly, shuffled, and
with everything recorded) and compares the outputs with the golden. Prints a line an artifact; exit status 1 if a
sanitizer reported anything or an output differs. For aarch64 it needs aarch64-linux-gnu-g++ and qemu-aarch64.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from pypto_build.artifact import ArtifactError, load_artifact
from pypto_build.artifact.interface import sign
from pypto_build.artifact.snapshot import snapshot
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.replay.binding import bind, with_goldens
from pypto_build.replay.tolerances import tolerances
from pypto_build.replay.values import decode, storage
from pypto_build.runtime.build import INCLUDE_DIR, SOURCE_DIR, write_unit
from pypto_build.toolchain.host import HostCompiler, find_compiler, kernel_flags, orchestration_flags

EXAMPLES = Path(__file__).parents[2] / "examples" / "artifacts"
PLATFORM = PLATFORMS["a2a3sim"]
#: How a program of another processor is run.
EMULATOR = {"aarch64": ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"]}
RUNS = ("plain", "plain", "shuffle", "records")


def _compiler(sanitizer: str) -> HostCompiler:
    return find_compiler("aarch64-linux-gnu-g++" if sanitizer == "aarch64" else "")


def _flags(sanitizer: str) -> list[str]:
    instrumented = [] if sanitizer == "aarch64" else [f"-fsanitize={sanitizer}", "-fno-omit-frame-pointer", "-g"]
    return [*instrumented, "-O1", "-std=c++17", "-fPIC", "-pthread", "-w"]


def _compile(words: list[str]) -> None:
    subprocess.run(words, check=True)


def build_driver(sanitizer: str, directory: Path) -> Path:
    """The runtime and the driver as a program."""
    text = write_unit("library", directory)
    target = directory / "driver"
    sources = [str(text), str(Path(__file__).with_suffix(".cpp"))]
    includes = ["-I", str(INCLUDE_DIR), "-I", str(SOURCE_DIR), "-I", str(directory)]
    _compile(
        [_compiler(sanitizer).path, *_flags(sanitizer), *includes, *sources, "-ldl", "-rdynamic", "-o", str(target)]
    )
    return target


def run_artifact(sanitizer: str, driver: Path, root: Path, directory: Path) -> str:
    """Return what the sanitizer found; empty without findings."""
    artifact = load_artifact(root)
    interface = sign(artifact).interface
    compiler = _compiler(sanitizer)
    arch = "armv8-a" if sanitizer == "aarch64" else ""
    lines = []
    jobs = []
    for kernel in artifact.kernels:
        target = directory / f"{kernel.core_type}_{kernel.name}.so"
        flags = [compiler.path, *kernel_flags(compiler, PLATFORM, kernel.core_type, arch)]
        jobs.append(
            [*flags, *_flags(sanitizer), "-shared", "-I", str(INCLUDE_DIR), str(kernel.source), "-o", str(target)]
        )
        lines.append(f"kernel {kernel.func_id} {kernel.name} {kernel.core_type} {target}")
    target = directory / "orchestration.so"
    entry = artifact.orchestration
    flags = [compiler.path, *orchestration_flags(compiler, PLATFORM), *_flags(sanitizer)]
    jobs.append([*flags, "-shared", "-I", str(INCLUDE_DIR), str(entry.source), "-o", str(target)])
    lines.append(
        f"orchestration {target} {interface.orchestration.function_name} {interface.orchestration.config_name}"
    )
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(_compile, jobs))
    data = snapshot(root, None)
    binding = bind(interface, data)
    with contextlib.suppress(ArtifactError):  # some golden is missing: the outputs are not compared
        binding = with_goldens(binding, data)
    for tensor in binding.tensors:
        path = directory / f"{tensor.name}.bin"
        path.write_bytes(tensor.initial if tensor.initial is not None else bytes(tensor.nbytes))
        shape = " ".join(map(str, tensor.shape))
        lines.append(f"tensor {tensor.name} {path} {tensor.dtype} {tensor.direction} {shape}")
    lines += [f"scalar {scalar.bits}" for scalar in binding.scalars]
    lines += [f"run {run} {directory / 'records'}" for run in RUNS]
    done = subprocess.run(
        [*EMULATOR.get(sanitizer, []), str(driver)],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        env=os.environ | {"ASAN_OPTIONS": "detect_leaks=1:handle_segv=0:allow_user_segv_handler=1"},
        check=False,
    )
    if done.returncode != 0 or "Sanitizer" in done.stderr or "runtime error" in done.stderr:
        return f"exit status {done.returncode}\n{done.stderr[:6000]}"
    rtol, atol = tolerances(root, None, None)
    for tensor in binding.tensors:
        if tensor.golden is None:
            continue
        output, golden = (
            decode(storage(content, tensor.dtype, tensor.shape), tensor.dtype)
            for content in ((directory / f"{tensor.name}.bin").read_bytes(), tensor.golden)
        )
        if not np.allclose(output, golden, rtol, atol):
            return f"output {tensor.name} differs from the golden"
    return ""


def main() -> int:
    """Run all and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.runtime.sanitize", description=main.__doc__)
    parser.add_argument("sanitizer", choices=("thread", "address", "undefined", "aarch64"))
    parser.add_argument("artifacts", nargs="*", type=Path)
    arguments = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        driver = build_driver(arguments.sanitizer, directory)
        for root in arguments.artifacts or sorted(path for path in EXAMPLES.iterdir() if path.is_dir()):
            line = directory / root.name
            line.mkdir()
            output = run_artifact(arguments.sanitizer, driver, root.resolve(), line)
            failed = failed or bool(output)
            print(f"{root.name}: {output or 'clean'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
