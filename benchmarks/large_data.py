"""Snapshots of gigabytes: a replay, again, and after one element or all of a golden changed, beside `sha256sum`.

    python -m benchmarks.large_data [--gigabytes 10] [--keep DIR]

An artifact of one kernel adds two vectors; inputs and golden together have that size. A row shows seconds, processor
seconds, and memory: the largest sum over the processes of anonymous and shared memory, and of mapped files. The output
of the run is a third of the snapshot; more memory would be a copy.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.large_run import write_step
from pypto_build.artifact.pt import write_pt

_REPOSITORY = Path(__file__).resolve().parents[1]
_PR_SET_CHILD_SUBREAPER = 36
_KERNEL = """#include <cstdint>
#include "tensor.h"
#include "intrinsic.h"
static float* data(int64_t* args, int number) {
    ChipTensor* tensor = reinterpret_cast<ChipTensor*>(args[number]);
    return reinterpret_cast<float*>(tensor->buffer.addr) + tensor->start_offset;
}
extern "C" void kernel_entry(int64_t* args) {
    const float *a = data(args, 0), *b = data(args, 1);
    float* c = data(args, 2);
    for (int64_t i = 0; i < ELEMENTS; ++i) c[i] = a[i] + b[i];
}
"""
_TASK = """    PTO2_SCOPE() {
        CoreTaskArgs params;
        params.add_input(orch_args.tensor(0).ref());
        params.add_input(orch_args.tensor(1).ref());
        params.add_output(orch_args.tensor(2).ref());
        rt_submit_aiv_task(0, params);
    }
"""


def write_large(root: Path, elements: int) -> None:
    """The artifact and its data: a[i] and b[i] are i modulo 1,000 and 2, c is their sum."""
    params = [(name, "Out" if name == "c" else "In", elements) for name in "abc"]
    write_step(root, _KERNEL.replace("ELEMENTS", f"{elements}ll"), _TASK, params)
    a = np.resize(np.arange(1000, dtype=np.float32), elements)
    for where, data in (("in/a", a), ("in/b", np.full(elements, 2, np.float32)), ("out/c", a + np.float32(2))):
        write_pt(root / "data" / f"{where}.pt", "float32", (elements,), data.data.cast("B"))


def _adopt_orphans() -> None:
    """Make this process the parent of what its children leave behind, so that all of it is seen."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _tree(process: int) -> Iterator[int]:
    yield process
    try:
        places = Path(f"/proc/{process}/task").glob("*/children")
        children = [child for path in places for child in path.read_text(encoding="ascii").split()]
    except OSError:
        return
    for child in children:
        yield from _tree(int(child))


def _memory() -> tuple[int, int]:
    """Kilobytes of all processes below this one, their own and of mapped files; shared pages count by shares."""
    own = mapped = 0
    for each in [*_tree(os.getpid())][1:]:
        try:
            text = Path(f"/proc/{each}/smaps_rollup").read_text(encoding="ascii")
        except OSError:
            continue
        size = {name: int(number) for name, number in re.findall(r"^(\w+): +(\d+) kB$", text, re.MULTILINE)}
        own += size.get("Pss_Anon", 0) + size.get("Pss_Shmem", 0)
        mapped += size.get("Pss_File", 0)
    return own, mapped


def _run(what: str, words: list[str], directory: Path, status: int) -> None:
    """Run a command, which has to end with ``status``, and print its line of the table."""
    environment = {**os.environ, "PYTHONPATH": str(_REPOSITORY), "PYPTO_BUILD_SERVER": "0"}
    begun = time.monotonic()
    process = subprocess.Popen(words, cwd=directory, env=environment, stdout=subprocess.PIPE, text=True)
    most, over = [0, 0], threading.Event()

    def look() -> None:
        while not over.wait(0.05):
            most[:] = map(max, most, _memory())

    looking = threading.Thread(target=look)
    looking.start()
    output = process.communicate()[0]
    over.set()
    looking.join()
    if process.returncode != status:
        raise SystemExit(f"{' '.join(words)} ended with {process.returncode}:\n{output[-3000:]}")
    print(f"| {what} | {time.monotonic() - begun:.1f} | {most[0] / 1e6:.2f} | {most[1] / 1e6:.2f} |", flush=True)


def main() -> int:
    """Measure and print the table, a row as soon as it is known."""
    parser = argparse.ArgumentParser(description="snapshots of gigabytes")
    parser.add_argument("--gigabytes", type=float, default=10.0)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="work there, and leave everything")
    options = parser.parse_args()
    _adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="large-data") as temporary:
        directory = (options.keep or Path(temporary)).resolve()
        root = directory / "build_output" / "_jit_large"
        write_large(root, int(options.gigabytes * 1e9 / 12))
        snapshots = sorted(map(str, root.glob("data/*/*.pt")))
        replay = [sys.executable, "-m", "pypto_build.cli", "replay", str(root)]
        print("| what | seconds | own memory, GB | mapped, GB |\n|---|---|---|---|", flush=True)
        _run("sha256sum of the snapshot", ["sha256sum", *snapshots], directory, 0)
        _run("first replay", replay, directory, 0)
        _run("unchanged", replay, directory, 0)
        _edit(root / "data" / "out" / "c.pt")
        _run("one element of the golden changed", replay, directory, 1)
        _run("unchanged", replay, directory, 1)
        _zero(root / "data" / "out" / "c.pt", int(options.gigabytes * 1e9 / 12))
        _run("every element of the golden changed", replay, directory, 1)
    return 0


def _zero(path: Path, elements: int) -> None:
    write_pt(path, "float32", (elements,), np.zeros(elements, np.float32).data.cast("B"))


def _edit(path: Path) -> None:
    """Change one element in the middle of a snapshot."""
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 8 * 4)
        file.write(b"\0\0\0\x7f")


if __name__ == "__main__":
    sys.exit(main())
