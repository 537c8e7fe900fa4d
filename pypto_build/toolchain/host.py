"""Command lines of the host compiler: kernels and orchestrations for the simulated platforms."""

from __future__ import annotations

import hashlib
import os
import platform as machine
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pypto_build.artifact.files import read_text
from pypto_build.facts import places
from pypto_build.facts.platforms import HOST_GRAPH, TENSORMAP, Platform
from pypto_build.facts.run_options import NUMERICS
from pypto_build.toolchain import ToolchainError
from pypto_build.toolchain.programs import TIME_LIMIT_S, version_text

# Recipes: the compile command of one kind of unit, and the steps from its object to the binary that a runtime loads.
# A kind is ``aic``, ``aiv`` or ``orchestration``. Command lines have the words `SOURCE` and `TARGET` in place of
# file names.

SOURCE, TARGET = "{source}", "{target}"


@dataclass(frozen=True)
class ToolStep:
    """One command after the compilation. ``label`` is shown to users. ``python`` marks a Python tool of this
    package.
    """

    label: str
    suffix: str
    words: tuple[str, ...]
    python: bool = False

    def argv(self, source: str, target: str) -> list[str]:
        """Return the command for these file names."""
        return [word.replace(SOURCE, source).replace(TARGET, target) for word in self.words]


@dataclass(frozen=True)
class UnitRecipe:
    """Everything that decides a unit's binary, besides its text and headers.

    ``identity`` names the programs and their versions. ``also`` are further files that a step reads. ``main_header`` is
    the header to precompile, as ``#include`` names it; it is empty if the compiler cannot. With the flags ``calling``
    the compiler leaves out instances of that header's templates, which are compiled separately. ``naming`` is the
    beginning of the flag that renames a directory in the output. ``named`` are the directories of its own headers and
    sources that are renamed. ``variables`` are prefixes of the environment variables that its programs may read.
    ``processor`` identifies this machine's processor, if a flag asks for it.
    """

    identity: str
    compiler: tuple[str, ...]
    include_dirs: tuple[Path, ...]
    steps: tuple[ToolStep, ...]
    also: tuple[Path, ...] = ()
    main_header: str = ""
    calling: tuple[str, ...] = ()
    naming: str = places.FLAG
    named: tuple[tuple[Path, str], ...] = ()
    variables: tuple[str, ...] = ()
    processor: str = ""

    @property
    def settings(self) -> dict[str, str]:
        """Return the settings that decide the binary, besides the command and its inputs."""
        return {"the compiler": self.identity, **({"this processor": self.processor} if self.processor else {})}

    @property
    def suffix(self) -> str:
        """Return the suffix of the binary that a runtime loads."""
        return self.steps[-1].suffix

    def compile_argv(
        self, source: str, target: str, extra_dirs: Sequence[Path] = (), extra_flags: Sequence[str] = ()
    ) -> list[str]:
        """Return the command that compiles one translation unit to one object."""
        dirs = [f"-I{directory}" for directory in (*self.include_dirs, *extra_dirs)]
        return [*self.compiler, *extra_flags, *dirs, "-c", source, "-o", target]

    @property
    def located(self) -> bool:
        """Return True if the output names its sources, as debug information does."""
        return any(word.startswith("-g") and word != "-g0" for word in self.compiler)

    def names(self, *named: tuple[Path, str]) -> tuple[str, ...]:
        """Return the flags that rename directories in the output; if several match, the last one counts."""
        return tuple(f"{self.naming}{path}={name}" for path, name in named)

    def precompile_argv(self, header: str, target: str, extra_flags: Sequence[str] = ()) -> list[str]:
        """Return the command that precompiles the header."""
        dirs = [f"-I{directory}" for directory in self.include_dirs]
        return [*self.compiler, *extra_flags, *dirs, "-x", "c++-header", header, "-o", target]


#: A recipe for each kind of unit.
Recipe = Mapping[str, UnitRecipe]


INCLUDE_DIR = Path(__file__).resolve().parent.parent / "runtime" / "include"

# Oldest major versions that are tested; the headers have a type of their own where the compiler lacks _Float16.
_OLDEST = {"g++": 10, "clang++": 15}

# Makes the output independent of the time at which a source was saved; the environment fixes the other dates.
_TIMELESS = ("-Wno-builtin-macro-redefined", '-D__TIMESTAMP__="Sat Jan  1 00:00:00 2000"')
# No -ffast-math: a replay must round as the hardware does. errno and trapping carry nothing a kernel could read.
_KERNEL_FLAGS = (
    "-std=c++17",
    "-O2",
    "-fPIC",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=off",  # a kernel computes the same bits whatever compiler built it; our headers fuse by name
    "-fno-strict-aliasing",  # kernels see one address as several types
    "-fno-semantic-interposition",
    "-D__CPU_SIM",
    "-DNDEBUG",
    "-Wno-attributes",  # generated entries are always_inline without being inline
    "-Wno-psabi",
    *_TIMELESS,
)
_GCC_KERNEL_FLAGS = ("-fno-gnu-unique", "-fvect-cost-model=dynamic")
#: Flags of kernels that record the memory that every instruction touches, with line numbers.
CHECKED_FLAGS = ("-DPYPTO_CHECK=1", "-g1")
#: Flags of kernels for a debugger: all variables exist, and instructions are not inlined, so that each line has code.
DEBUG_FLAGS = ("-O0", "-g", "-fno-omit-frame-pointer", "-DPYPTO_DEBUG=1")
_ORCHESTRATION_FLAGS = ("-std=c++17", "-O1", "-fPIC", "-D__CPU_SIM", *_TIMELESS)
# A flag that means another target on every machine.
_NATIVE = re.compile(r"-m(?:arch|tune|cpu)=native\b")
_CORE_MACRO = {"aiv": "-D__DAV_VEC__", "aic": "-D__DAV_CUBE__"}
# Headers that nearly every unit of a kind includes, and that take a third of its compile time.
_MAIN_HEADERS = {"aiv": "pto/pto-inst.hpp", "aic": "pto/pto-inst.hpp", "orchestration": "pto_orchestration_api.h"}
_CALLING = dict.fromkeys(_CORE_MACRO, ("-fno-implicit-templates",))
# The system's libraries are not linked to: the loader has made them visible, and a link takes a quarter of the time.
# A library has two segments: with the usual five, each fork and each end of a process that has thousands of them loaded
# takes twice the time.
_LINK_FLAGS = ("-shared", "-nodefaultlibs", "-Wl,--build-id=sha1,-z,noseparate-code,-z,norelro")
_LINK_LIBRARIES = ("-lgcc",)


@dataclass(frozen=True)
class HostCompiler:
    """A C++ compiler on this machine: its path, its kind, and its version line (part of every build key)."""

    path: str
    family: str
    version: str
    major: int

    @property
    def identity(self) -> str:
        """Return the compiler's path and version: two compilations are interchangeable only if these are equal."""
        return f"{self.path} {self.version}"


def default_arch() -> str:
    """Return the default of ``ARCH``: portable to every machine of this kind from the last ten years."""
    return "x86-64-v3" if machine.machine() in ("x86_64", "AMD64") else "armv8-a"


def find_compiler(name: str = "") -> HostCompiler:
    """Return the compiler called ``name``; without a name, the first of g++ and clang++ on ``PATH``.

    Raises:
        ToolchainError: none was found, or the one found is too old.
    """
    candidates = [name] if name else ["g++", "clang++"]
    for candidate in candidates:
        if path := shutil.which(candidate):
            return _probe(path)
    problem = f"CXX={name}: not found on PATH" if name else "no C++ compiler on PATH (looked for g++ and clang++)"
    raise ToolchainError(f"{problem}; install g++ 10 or newer, or name one with CXX=")


def _probe(path: str) -> HostCompiler:
    line = version_text(path, "name a working compiler with CXX=").partition("\n")[0]
    family = "clang++" if "clang" in line.lower() else "g++"
    number = re.search(r"(\d+)\.\d+", line.rsplit(")", 1)[-1]) or re.search(r"(\d+)\.\d+", line)
    if number is None:
        raise ToolchainError(f"{path} --version: the output is not that of a C++ compiler; name a compiler with CXX=")
    major = int(number.group(1))
    if major < _OLDEST[family]:
        raise ToolchainError(
            f"{path} calls itself '{line}'; {family} {_OLDEST[family]} or newer is needed, name one with CXX="
        )
    return HostCompiler(path, family, line, major)


@cache
def native_target(compiler: str, flag: str) -> str:
    """Return a digest of the target that ``-march=native`` means to a compiler on this machine.

    Raises:
        ToolchainError: the compiler does not tell.
    """
    command = [compiler, "-###", flag, "-E", "-x", "c++", os.devnull]
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=TIME_LIMIT_S)
    except (OSError, subprocess.SubprocessError) as error:
        raise ToolchainError(f"{flag}: {compiler} does not report its processor ({error}); set ARCH=") from None
    words = [word for word in run.stderr.split() if "/" not in word and "native" not in word]
    return hashlib.sha256(" ".join(words).encode()).hexdigest()


def _native_flags(words: Iterable[str]) -> Iterator[str]:
    """Yield the flags whose target differs between machines, those in response files too."""
    for word in words:
        text = word
        if word.startswith("@"):
            with suppress(OSError):  # the compiler says so
                text = read_text(word[1:], errors="replace")
        yield from _NATIVE.findall(text)


def _processor(compiler: HostCompiler, words: Iterable[str]) -> str:
    """Return the digests of this machine's target, for the flags in ``words`` that depend on it."""
    return " ".join(native_target(compiler.path, word) for word in dict.fromkeys(_native_flags(words)))


def arch_flag(arch: str) -> str:
    """Return the ``-march`` flag for ``ARCH=``."""
    return f"-march={arch or default_arch()}"


def _half_flags(compiler: HostCompiler) -> tuple[str, ...]:
    """Return the flags that make each operation on halves round: g++ 13 and clang 16 otherwise keep intermediate
    results in float.
    """
    oldest = {"g++": 12, "clang++": 16 if default_arch().startswith("x86") else sys.maxsize}
    return ("-fexcess-precision=16",) if compiler.major >= oldest[compiler.family] else ()


def kernel_flags(compiler: HostCompiler, platform: Platform, core_type: str, arch: str = "") -> list[str]:
    """Return the flags for compiling a kernel, equal for every kernel of a core type."""
    gcc_only = _GCC_KERNEL_FLAGS if compiler.family == "g++" else ()
    macros = (_CORE_MACRO[core_type], f"-DPYPTO_ARCH={platform.arch_macro}")
    return [*_KERNEL_FLAGS, *_half_flags(compiler), *gcc_only, arch_flag(arch), *macros]


def kernel_numerics(numerics: str) -> tuple[str, ...]:
    """Return the kernel flags for ``NUMERICS=``; empty for the default."""
    number = NUMERICS.index(numerics)
    return (f"-DPYPTO_NUMERICS={number}",) if number else ()


def orchestration_flags(compiler: HostCompiler, platform: Platform, runtime: str = TENSORMAP) -> list[str]:
    """Return the flags for compiling an orchestration, for one of simpler's runtimes."""
    gcc_only = ("-fno-gnu-unique",) if compiler.family == "g++" else ()
    counts_cores = ("-DPYPTO_COUNTS_CORES",) if platform.arch == "a5" and runtime != HOST_GRAPH else ()
    return [*_ORCHESTRATION_FLAGS, *gcc_only, f"-DPYPTO_ARCH={platform.arch_macro}", *counts_cores]


def host_recipe(
    compiler: HostCompiler,
    platform: Platform,
    runtime: str = TENSORMAP,
    arch: str = "",
    more_kernel_flags: Sequence[str] = (),
    user_flags: Sequence[str] = (),
) -> Recipe:
    """Return the recipe that compiles units into libraries for the embedded runtime.

    ``runtime`` is the runtime of simpler that the artifact was made for. With the user's own flags, whose effects are
    unknown, each kernel gets its own instances of instructions.
    """
    flags = {
        **{
            core: [*kernel_flags(compiler, platform, core, arch), *more_kernel_flags, *user_flags]
            for core in _CORE_MACRO
        },
        "orchestration": orchestration_flags(compiler, platform, runtime),
    }
    link = ToolStep("link   ", ".so", (compiler.path, *_LINK_FLAGS, SOURCE, *_LINK_LIBRARIES, "-o", TARGET))
    # clang++ stops at a stale precompiled header, where g++ reads the text instead, and it instantiates in any case.
    main_headers = _MAIN_HEADERS if compiler.family == "g++" else {}
    calling = _CALLING if compiler.family == "g++" and not user_flags else {}
    return {
        kind: UnitRecipe(
            compiler.identity,
            (compiler.path, *words),
            (INCLUDE_DIR,),
            (link,),
            main_header=main_headers.get(kind, ""),
            calling=calling.get(kind, ()),
            named=((INCLUDE_DIR, places.HEADERS),),
            processor=_processor(compiler, words),
        )
        for kind, words in flags.items()
    }
