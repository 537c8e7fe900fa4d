"""Rules on the `.pto` modules: valid by themselves, and the same function as the wrapper calls."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from pypto_build.artifact import Kernel
from pypto_build.diagnose.findings import Finding
from pypto_build.diagnose.lint.subject import Subject
from pypto_build.facts.dtypes import PTO, torch_name
from pypto_build.pto import Function, Module, PtoError, parse_file
from pypto_build.pto.check import modules_of
from pypto_build.pto.checks import check_module

_KINDS = {"cube": "aic", "vector": "aiv"}


def check_modules(subject: Subject) -> Iterator[Finding]:
    """Every module is what the assembler and the hardware take."""
    for path in modules_of(subject.artifact.root):
        yield from _check_module(path, subject.short(path), subject.platform)
        module = parsed_module(path, subject.platform)
        if module is not None:
            yield from _functions(subject, path, module)


def check_uncompiled(part: Path, root: Path, platform: str) -> Iterator[Finding]:
    """The modules of an artifact, or of a ``part`` of it, compiled without ptoas: there is nothing else yet."""
    for path in modules_of(part):
        yield from _check_module(path, path.relative_to(root).as_posix(), platform)
    yield Finding(
        "lint/incomplete",
        "kernels/ holds .pto modules only: they are checked; wrappers and manifest are not there yet",
        part.relative_to(root).as_posix(),
        0,
        "to check them too: 'scons splice WRITE=1' makes them",
        level="note",
    )


def _check_module(path: Path, name: str, platform: str) -> Iterator[Finding]:
    for error in _parsed(path, platform)[1]:
        operation = f"{error.operation}: " if error.operation else ""
        yield Finding("lint/pto", f"{operation}{error.message}", name, error.position.line, "correct the module")


def parsed_module(path: Path, platform: str) -> Module | None:
    """A module that is valid on the platform, else None."""
    module, errors = _parsed(path, platform)
    return None if any(not error.is_rule for error in errors) else module


@lru_cache(maxsize=64)
def _parsed(path: Path, platform: str) -> tuple[Module | None, tuple[PtoError, ...]]:
    try:
        module = parse_file(path)
        return module, tuple(check_module(module, platform))
    except PtoError as error:
        return None, (error,)


def _functions(subject: Subject, path: Path, module: Module) -> Iterator[Finding]:
    kernels = {kernel.name: kernel for kernel in subject.artifact.kernels}
    for function in module.functions():
        kernel = kernels.get(function.name)
        if kernel is None or function.body is None:
            continue
        line = module.source.position(function.token).line
        wanted = _KINDS.get(function.kernel_kind)
        if wanted and wanted != kernel.core_type:
            yield Finding(
                "lint/pto-core-type",
                f"@{function.name} is a {function.kernel_kind} kernel, the manifest says {kernel.core_type}",
                subject.short(path),
                line,
                f"correct pto.kernel_kind, or make core_type {wanted}",
                kernel=kernel.name,
            )
        yield from _signature(subject, path, function, kernel, line)


def _signature(subject: Subject, path: Path, function: Function, kernel: Kernel, line: int) -> Iterator[Finding]:
    wrapper = subject.wrappers[kernel.func_id]
    if wrapper.called is None or wrapper.called.name != function.name:
        return
    if len(wrapper.called.parameters) != len(wrapper.call_arguments):
        return  # said of the wrapper already
    taken, passed = len(function.args), len(wrapper.call_arguments)
    if taken != passed:
        yield Finding(
            "lint/pto-signature",
            f"@{function.name} takes {taken} arguments, {wrapper.code.name}:{wrapper.call_line} passes {passed}",
            subject.short(path),
            line,
            "compile again: an edited signature needs a new wrapper",
            kernel=kernel.name,
        )
        return
    types = {item.name: item.ctype for item in wrapper.unpacked if item.ctype}
    for argument, expression in zip(function.args, wrapper.call_arguments, strict=True):
        read, given = _element(str(argument.type)), torch_name(types.get(expression, ""))
        if read and given and read.removeprefix("u") != given.removeprefix("u"):
            yield Finding(
                "lint/pto-signature",
                f"@{function.name}: {argument.name} is {read}, {wrapper.code.name} passes '{expression}' as {given}",
                subject.short(path),
                line,
                "make the types agree",
                kernel=kernel.name,
            )


def _element(text: str) -> str | None:
    inner = text.removeprefix("!pto.ptr<").removesuffix(">").split(",")[0].strip()
    return PTO[inner].torch or None if inner in PTO else None
