"""Instances of instructions, compiled once, so that a kernel's own compilation only parses, checks and calls.

g++ leaves templates that a unit uses undefined (``-fno-implicit-templates``); instantiating them is nine tenths of the
work of a typical kernel. The symbols of an object tell which it lacks. Each instance is a unit of its own, an explicit
instantiation. It is compiled once for each command line, shared by all artifacts and workspaces of this user, and
linked into the binaries that call it. The files that it was made from count as read by the link.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path

from SCons.Script import GetOption

from pypto_build import terminal
from pypto_build.artifact.files import write_bytes
from pypto_build.facts import places
from pypto_build.proof import Action
from pypto_build.proof.action import Helper
from pypto_build.rules.machinery.environment import search_paths
from pypto_build.rules.machinery.workspace import Workspace
from pypto_build.toolchain.cache import cache_dir
from pypto_build.toolchain.elf import ElfError, read_elf
from pypto_build.toolchain.host import UnitRecipe

# The type _Float16, of which libstdc++ 12 knows no name: in symbols, and in C++, another builtin type stands for it.
_HALF = (("DF16_", "g"), ("__float128", "_Float16"))
# Namespaces whose templates the main header declares, as they begin in symbols.
_OURS = ("_ZN3pto", "_ZNK3pto")


class Instances:
    """The template instances that objects compiled by ``recipe`` call; ``helpers`` are files that make their
    compilation faster.
    """

    def __init__(
        self,
        workspace: Workspace,
        recipe: UnitRecipe,
        environment: Mapping[str, str],
        helpers: Callable[[], tuple[Helper, ...]],
    ) -> None:
        self._workspace = workspace
        self._recipe = recipe
        self._environment = environment
        self._helpers = helpers
        self._lock = threading.Lock()
        self._known: dict[str, Helper | None] = {}
        words = [*recipe.settings.values(), recipe.main_header, *recipe.compile_argv("", "")]
        self._directory = cache_dir() / "instructions" / hashlib.sha256(json.dumps(words).encode()).hexdigest()[:32]
        self._output_dir = workspace.output_dir(self._directory)

    def of(self, symbols: list[str]) -> tuple[Helper, ...] | None:
        """Return the files to link with an object that calls these symbols; None if one of them cannot be compiled
        separately.
        """
        with self._lock:
            self._look_up(symbol for symbol in symbols if symbol not in self._known)
            instances = [self._known[symbol] for symbol in symbols]
        return tuple(helper for helper in instances if helper) if all(instances) else None

    def _look_up(self, symbols: Iterable[str]) -> None:
        missing = []
        for symbol in symbols:
            self._known[symbol] = self._proven(symbol)
            if self._known[symbol] is None:
                missing.append(symbol)
        if missing:
            with self._output_dir.alone():
                self._build(missing)
                self._output_dir.save()

    def _build(self, symbols: list[str]) -> None:
        """Compile instances in parallel. Instances that another process has built meanwhile are used."""
        helpers = self._helpers()
        for symbol in symbols:
            text = f"#include <{self._recipe.main_header}>\ntemplate {demangled(symbol)};\n"
            write_bytes(self._directory / f"{_stem(symbol)}.cpp", text.encode())
        if missing := [symbol for symbol in symbols if not self._proven(symbol)]:
            terminal.detail(
                f"[instructions] compiles {len(missing)} instruction templates, once for these compiler flags"
            )
        from concurrent.futures import ThreadPoolExecutor  # an edit rarely needs a new instance

        with ThreadPoolExecutor(GetOption("num_jobs")) as pool:
            list(pool.map(lambda symbol: self._compile(symbol, helpers), missing))
        for symbol in symbols:
            self._known[symbol] = self._proven(symbol)

    def _compile(self, symbol: str, helpers: tuple[Helper, ...]) -> None:
        def spawn(command: list[str], env: dict[str, str]) -> tuple[int, str]:
            # The working directory is in the object, which all workspaces share.
            confined = self._workspace.confine(command, self._directory)
            status = self._workspace.compile(confined, env, self._directory)[0]
            return (status or int(symbol not in read_elf(Path(command[-1])).defined)), ""

        self._output_dir.perform(self._action(symbol), spawn, lambda: helpers)

    def _proven(self, symbol: str) -> Helper | None:
        action = self._action(symbol)
        result = self._output_dir.proven(action)
        if result is None:
            return None
        name = action.outputs[0]
        path = str(self._output_dir.path(name))
        return Helper(path, result.outputs[name], self._output_dir.contents(result), (path,), needed=True)

    def _action(self, symbol: str) -> Action:
        name, source = f"{_stem(symbol)}.o", str(self._directory / f"{_stem(symbol)}.cpp")
        recipe = self._recipe
        named = recipe.names((self._directory, places.INSTRUCTIONS), *recipe.named) if recipe.located else ()
        return Action(
            name=name,
            argv=tuple(recipe.compile_argv(source, f"{self._directory / name}.tmp", extra_flags=named)),
            inputs=(source,),
            outputs=(name,),
            settings=self._settings,
            environment=self._environment,
            main=source,
        )

    @cached_property
    def _settings(self) -> dict[str, str]:
        return self._recipe.settings | search_paths(self._environment)


def missing_instances(file: Path) -> tuple[list[str], list[str]]:
    """Return the template symbols that an object calls and does not define, sorted: those of our templates, and
    others.
    """
    try:
        elf = read_elf(file)
    except (OSError, ElfError):
        return [], []  # the linker says what is wrong with it
    undefined = sorted({symbol.name for symbol in elf.symbols if not symbol.section and symbol.name.startswith("_Z")})
    ours = [symbol for symbol in undefined if symbol.startswith(_OURS)]
    return ours, [symbol for symbol in undefined if symbol not in ours and "<" in demangled(symbol)]


def demangled(symbol: str) -> str:
    """Return the C++ name of a symbol; the symbol itself if demangling fails."""
    import ctypes

    try:
        library = ctypes.CDLL("libstdc++.so.6")
        demangle, free = library.__cxa_demangle, library.free
    except (OSError, AttributeError):
        return symbol
    demangle.restype, free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    address = demangle(symbol.replace(*_HALF[0]).encode(), None, None, None)
    if not address:
        return symbol
    text = ctypes.string_at(address).decode(errors="replace")
    free(address)
    return text.replace(*_HALF[1])


def _stem(symbol: str) -> str:
    return hashlib.sha256(symbol.encode()).hexdigest()[:32]
