"""Compiles assembled bodies against the project's headers and runs them on numpy arrays, without the runtime.

All functions of a test module go into one shared library, so that a whole set of numeric tests costs one compilation.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

import pypto_build.runtime
from pypto_build.pto import Function, Module, parse
from pypto_build.pto.assemble import assemble
from pypto_build.pto.cpp.emitter import scalar
from pypto_build.pto.types import PtrType
from tests import kept

INCLUDE = Path(pypto_build.runtime.__file__).parent / "include"
COMPILER = shutil.which("g++") or shutil.which("clang++")

_PROLOGUE = """
#include <stdio.h>
#include <stdlib.h>
#define __CPU_SIM
#include <pto/pto-inst.hpp>
using namespace pto;
"""

_EPILOGUE = """
static void report(PyptoCoreContext *, const char *message, const char *, int) {
    fprintf(stderr, "%s\\n", message);
    abort();
}
extern "C" void harness_bind(int is_vector, int sub_block) {
    static PyptoCoreContext context = {};
    context.abi = PYPTO_CORE_ABI;
    context.is_vector = is_vector;
    context.sub_block = sub_block;
    context.sub_block_dim = 2;
    context.block_num = 1;
    context.fault = report;
    for (PyptoMemory &memory : context.memory)
        if (!memory.base) {
            memory.size = 1 << 20;
            memory.base = (uint8_t *)aligned_alloc(128, memory.size);
        }
    for (PyptoMemory &memory : context.memory)
        memset(memory.base, 0xcc, memory.size);
    pypto_bind_core(&context);
}
"""


def _entry(function: Function) -> str:
    """A C function that takes the arguments as one array of 8-byte words."""
    unpack = []
    for number, argument in enumerate(function.args):
        ctype = scalar(argument.type)
        if isinstance(argument.type, PtrType):
            unpack.append(f"({ctype})args[{number}]")
        else:
            unpack.append(f"*({ctype} *)&args[{number}]")
    return f'extern "C" void entry_{function.name}(uint64_t *args) {{ {function.name}({", ".join(unpack)}); }}\n'


class Library:
    """The functions of one module, compiled."""

    def __init__(self, module: Module | str, directory: Path, platform: str = "a2a3sim") -> None:
        self.module = parse(module) if isinstance(module, str) else module
        body = assemble(self.module, platform)
        entries = "".join(_entry(f) for f in self.module.functions() if f.body is not None)
        assert COMPILER is not None
        command = [COMPILER, "-std=c++17", "-O0", "-shared", "-fPIC", f"-I{INCLUDE}"]
        if platform.startswith("a5"):
            command.append("-DPYPTO_ARCH=5")

        def compile_to(source: Path, target: Path) -> None:
            words = [*command, str(source), "-o", str(target)]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr[:4000]

        self.library = ctypes.CDLL(str(kept.library(_PROLOGUE + body.text + _EPILOGUE + entries, command, compile_to)))

    def run(self, name: str, args: Sequence[npt.NDArray[np.generic] | int | float], *, sub_block: int = 0) -> None:
        """Call a function; arrays go by address, numbers by value."""
        words = (ctypes.c_uint64 * max(len(args), 1))()
        for number, value in enumerate(args):
            if isinstance(value, np.ndarray):
                words[number] = value.ctypes.data
            elif isinstance(value, float):
                words[number] = int(np.float32(value).view(np.uint32))
            else:
                words[number] = value & (2**64 - 1)
        function = next(f for f in self.module.functions() if f.name == name)
        self.library.harness_bind(int(function.kernel_kind != "cube"), sub_block)
        self.library[f"entry_{name}"](words)
