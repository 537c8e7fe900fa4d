"""Rules on the bodies of kernels against what they were made from: ptoas' output, and the module it was made of.

A user who edits a kernel by hand means to edit instructions. A flag, barrier, address or tile type that differs from
the assembler's is more often an accident, and a run on a CPU does not show it. A module that was edited but not
spliced has instructions, tiles or addresses that the body lacks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import Path

from pypto_build.artifact import Kernel
from pypto_build.artifact.cpp.text import without_comments
from pypto_build.artifact.files import read_source
from pypto_build.artifact.modules import spliced_modules
from pypto_build.diagnose.findings import Edit, Finding
from pypto_build.diagnose.lint.subject import Subject
from pypto_build.facts.dtypes import PTO, torch_name
from pypto_build.pto import Function, Module, Operation, PtoError, parse_file
from pypto_build.pto.check import modules_of
from pypto_build.pto.checks import check_module
from pypto_build.pto.cpp.emitter import SCALARS, SPACES
from pypto_build.pto.ops import TABLE
from pypto_build.pto.resolve import resolve
from pypto_build.pto.splice import body_of, find_sentinels, functions_of, preprocess
from pypto_build.pto.types import ScalarType, TileType

# Rules on the `.pto` modules: valid by themselves, and the same function as the wrapper calls.

_MODULES_KINDS = {"cube": "aic", "vector": "aiv"}


def check_modules(subject: Subject) -> Iterator[Finding]:
    """Check all modules against the rules of the assembler and of the hardware."""
    for path in modules_of(subject.artifact.root):
        yield from _check_module(path, subject.short(path), subject.platform)
        module = parsed_module(path, subject.platform)
        if module is not None:
            yield from _modules_functions(subject, path, module)


def check_uncompiled(part: Path, root: Path, platform: str) -> Iterator[Finding]:
    """Check the modules of an artifact, or of a ``part`` of it, compiled without ptoas, which has no kernels yet."""
    for path in modules_of(part):
        yield from _check_module(path, path.relative_to(root).as_posix(), platform)
    yield Finding(
        "lint/incomplete",
        "kernels/ holds only .pto modules: the modules are checked, but wrappers and manifest are missing",
        part.relative_to(root).as_posix(),
        0,
        "run 'scons splice WRITE=1', which writes and checks them",
        level="note",
    )


def _check_module(path: Path, name: str, platform: str) -> Iterator[Finding]:
    for error in _parsed(path, platform)[1]:
        operation = f"{error.operation}: " if error.operation else ""
        yield Finding("lint/pto", f"{operation}{error.message}", name, error.position.line, "correct the module")


def parsed_module(path: Path, platform: str) -> Module | None:
    """Return the parsed module, or None if it is invalid on the platform."""
    module, errors = _parsed(path, platform)
    return None if any(not error.is_rule for error in errors) else module


@lru_cache(maxsize=64)
def _parsed(path: Path, platform: str) -> tuple[Module | None, tuple[PtoError, ...]]:
    try:
        module = parse_file(path)
        return module, tuple(check_module(module, platform))
    except PtoError as error:
        return None, (error,)


def _modules_functions(subject: Subject, path: Path, module: Module) -> Iterator[Finding]:
    kernels = {kernel.name: kernel for kernel in subject.artifact.kernels}
    for function in module.functions():
        kernel = kernels.get(function.name)
        if kernel is None or function.body is None:
            continue
        line = module.source.position(function.token).line
        core_type = _MODULES_KINDS.get(function.kernel_kind)
        if core_type and core_type != kernel.core_type:
            yield Finding(
                "lint/pto-core-type",
                f"@{function.name} is a {function.kernel_kind} kernel, but the manifest declares {kernel.core_type}",
                subject.short(path),
                line,
                f"correct pto.kernel_kind, or set core_type to {core_type}",
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
            f"@{function.name} takes {taken} arguments, but {wrapper.code.name}:{wrapper.call_line} passes {passed}",
            subject.short(path),
            line,
            "compile again: an edited signature needs a new kernel_entry",
            kernel=kernel.name,
        )
        return
    types = {item.name: item.ctype for item in wrapper.unpacked if item.ctype}
    for argument, expression in zip(function.args, wrapper.call_arguments, strict=True):
        read, passed_type = _element(str(argument.type)), torch_name(types.get(expression, ""))
        if read and passed_type and read.removeprefix("u") != passed_type.removeprefix("u"):
            yield Finding(
                "lint/pto-signature",
                (
                    f"@{function.name}: {argument.name} is {read}, but {wrapper.code.name} passes '{expression}' "
                    f"as {passed_type}"
                ),
                subject.short(path),
                line,
                "make the two types agree",
                kernel=kernel.name,
            )


def _element(text: str) -> str | None:
    inner = text.removeprefix("!pto.ptr<").removesuffix(">").split(",")[0].strip()
    return PTO[inner].torch or None if inner in PTO else None


#: What the CPU does not notice, by the lines that say it.
_KINDS = {
    "flag": re.compile(r"\b(?:set|wait)_flag\w*\s*\("),
    "barrier": re.compile(r"\bpipe_barrier\s*\("),
    "address": re.compile(r"\bTASSIGN\s*\(|^const\s+u?int64_t\s+\w+\s*=\s*-?\d+;"),
    "tile type": re.compile(r"\bTile<"),
    "call of a pipe": re.compile(r"\b(?:TPUSH|TPOP|TFREE)\s*[<(]"),
}
#: Beyond this many lines a body is not compared: aligning takes the square of them.
_MOST_LINES = 20_000
#: Operations on pipes, of which every assembler makes one call each, by the beginnings of their names.
_PIPE_CALLS = {"pto.tpush_to_": "TPUSH", "pto.tpop_from_": "TPOP", "pto.tfree_from_": "TFREE"}
_CALL = re.compile(r"\b([TM][A-Z][A-Z0-9_]+)\s*(?:<[^;{}]{0,2000}?>)?\s*\(")
_NUMBER = re.compile(r"(?<![\w.])\d{1,18}(?![\w.])")
_TILE = re.compile(r"\bTile<\s*TileType::(\w+)\s*,\s*(\w+)\s*,\s*(\d{1,9})\s*,\s*(\d{1,9})\b")


def check_bodies(subject: Subject, build_dir: Path | None = None) -> Iterator[Finding]:
    """Check every kernel that has a unit, unless replays in ``build_dir`` run the unit's module."""
    spliced = spliced_modules(subject.artifact.root, build_dir) if build_dir else []
    modules = {path.with_suffix(""): path for path in modules_of(subject.artifact.root)}
    for kernel in subject.artifact.kernels:
        body = None if kernel.external else _body(subject, kernel)
        unit = next((path for path in modules if kernel.name in _functions(path, subject.platform)), None)
        if body is None or unit is None or modules[unit] in spliced:
            continue
        raw = unit.with_suffix(".cpp")
        edited = list(_against_output(subject, kernel, raw)) if raw.is_file() else []
        yield from edited or _against_module(subject, kernel, modules[unit], body)


def _body(subject: Subject, kernel: Kernel) -> str | None:
    wrapper = subject.wrappers[kernel.func_id]
    called = wrapper.called
    return None if called is None else wrapper.code.code[called.start : called.end]


@lru_cache(maxsize=64)
def _functions(unit: Path, platform: str) -> dict[str, Function]:
    module = parsed_module(unit.with_suffix(".pto"), platform)
    return {function.name: function for function in module.functions() if function.body} if module else {}


# --- against the assembler's output ---


def _against_output(subject: Subject, kernel: Kernel, raw: Path) -> Iterator[Finding]:
    text = subject.wrappers[kernel.func_id].code.raw
    try:
        begin = find_sentinels(text).begin
        theirs = preprocess(read_source(raw), text)
    except PtoError:
        return  # another form of wrapper
    if kernel.name not in functions_of(theirs):
        return
    mine = body_of(text)
    first = text[: text.index(mine, begin)].count("\n") + 1
    ours, assembled = _lines(mine), _lines(theirs.strip("\n"))
    if ours == assembled or max(len(ours), len(assembled)) > _MOST_LINES:
        return
    yield from _differences(subject, kernel, subject.short(raw), ours, assembled, first)


def _lines(text: str) -> list[str]:
    """Return the lines without comments and with single spaces between words."""
    return [" ".join(line.split()) for line in without_comments(text).splitlines()]


def _differences(
    subject: Subject, kernel: Kernel, raw: str, ours: Sequence[str], assembled: Sequence[str], first: int
) -> Iterator[Finding]:
    for tag, a, b, c, d in SequenceMatcher(None, ours, assembled, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        for what, pattern in _KINDS.items():
            has = [number for number in range(a, b) if pattern.search(ours[number])]
            had = [number for number in range(c, d) if pattern.search(assembled[number])]
            if Counter(ours[n] for n in has) == Counter(assembled[n] for n in had):
                continue
            line = first + (has[0] if has else min(a, len(ours) - 1))
            yield _difference(subject, kernel, raw, what, line, [ours[n] for n in has], [assembled[n] for n in had])


def _difference(
    subject: Subject, kernel: Kernel, raw: str, what: str, line: int, has: list[str], had: list[str]
) -> Finding:
    extra = list((Counter(has) - Counter(had)).elements())
    missing = list((Counter(had) - Counter(has)).elements())
    if missing and extra:
        says = f"'{_short(extra[0])}', but {raw} has '{_short(missing[0])}'"
    elif missing:
        says = f"'{_short(missing[0])}' is missing before this line; {raw} has it"
    else:
        says = f"'{_short(extra[0])}' is not in {raw}"
    text = subject.wrappers[kernel.func_id].code.raw.splitlines()[line - 1].strip()
    edits: tuple[Edit, ...] = ()
    path = subject.short(kernel.source)
    if missing and extra and len(missing) == len(extra) == 1 and text == extra[0]:
        edits = (Edit(path, line, text, missing[0]),)
    elif len(missing) == 1 and not extra and text:
        edits = (Edit(path, line, text, f"{missing[0]} {text}"),)
    elif len(extra) == 1 and not missing and text == extra[0]:
        edits = (Edit(path, line, text, ""),)
    return Finding(
        "lint/edited-body",
        f"kernel '{kernel.name}': this {what} differs from the assembler's output: {says}",
        path,
        line,
        "undo the edit, or edit the module instead, so that the next splice keeps the change",
        "warning",
        kernel=kernel.name,
        edits=edits,
    )


def _short(text: str) -> str:
    return text if len(text) <= 90 else f"{text[:87]}..."


# --- against the module ---


def _against_module(subject: Subject, kernel: Kernel, path: Path, body: str) -> Iterator[Finding]:
    module = parsed_module(path, subject.platform)
    function = _functions(path.with_suffix(""), subject.platform)[kernel.name]
    if module is None or function.body is None:
        return
    difference = next(_unspliced(module, function, body), None)
    if difference is None:
        return
    operation, says = difference
    line = module.source.position(operation.token if operation else function.token).line
    code = subject.wrappers[kernel.func_id].code.name
    yield Finding(
        "lint/not-spliced",
        f"@{function.name}: {says} {code}: the module and the body do not match",
        subject.short(path),
        line,
        "splice the module into its kernels (scons splice WRITE=1), or undo the edit of the module",
        "warning",
        kernel=kernel.name,
    )


def _unspliced(module: Module, function: Function, body: str) -> Iterator[tuple[Operation | None, str]]:
    """The first of: an instruction that is not there as often, an address, a tile that the body does not have."""
    assert function.body is not None
    operations = list(function.body.walk())
    plain = {op.name for op in operations if _is_plain(op.name)}
    expected = Counter(TABLE[op.name].cpp for op in operations if op.name in plain)
    instructions = {row.cpp for row in TABLE.values() if _is_plain(row.name)}
    has = Counter(name for name in _CALL.findall(body) if name in instructions)
    for op in operations:
        name = TABLE[op.name].cpp
        if op.name in plain and has[name] < expected[name]:
            others = [other for other, times in has.items() if times > expected[other]]
            instead = f", and {has[others[0]]} {others[0]}," if others else ""
            yield op, f"{expected[name]} {op.name} here, {has[name]} {name}{instead} in"
    for name, times in has.items():
        if times > expected[name]:
            yield None, f"{expected[name]} operations that become {name} here, {times} of it in"
    for beginning, call in _PIPE_CALLS.items():
        pipes = [op for op in operations if op.name.startswith(beginning)]
        calls = len(re.findall(rf"\b{call}\s*[<(]", body))
        if calls < len(pipes):
            yield pipes[-1], f"{len(pipes)} {beginning}* here, {calls} {call} in"
    numbers = set(map(int, _NUMBER.findall(body)))
    tiles = {(space, element, int(rows), int(cols)) for space, element, rows, cols in _TILE.findall(body)}
    resolved = resolve(function, module)
    for op in operations:
        if op.name != "pto.alloc_tile":
            continue
        address = resolved.constant(op, "addr") if "addr" in op.operands else None
        if address is not None and address not in numbers:
            yield op, f"a tile at address {address} here, no such address in"
        type_ = op.result_types[0]
        if isinstance(type_, TileType) and _spelled(type_) and _spelled(type_) not in tiles:
            yield op, f"a {type_.rows}x{type_.cols} {type_.dtype} tile in {type_.loc} here, none in"


def _is_plain(name: str) -> bool:
    """Return whether the operation works element by element, so that every assembler makes one instruction of it."""
    row = TABLE[name]
    return row.computes is not None and re.fullmatch(r"T[A-Z0-9_]+", row.cpp) is not None


def _spelled(type_: TileType) -> tuple[str, str, int, int] | None:
    space = SPACES.get(type_.loc)
    element = SCALARS.get(type_.dtype.name) if isinstance(type_.dtype, ScalarType) else None
    return (space, element, type_.rows, type_.cols) if space and element else None
