"""Splicing: putting a newly assembled body into the kernel files (wrappers) that were made around an older one.

Pure functions of texts; which files are stale and where results go is for the build rules to decide. A wrapper is a
header, the body between two sentinel comments, and `kernel_entry`, which unpacks arguments and forwards them to the
kernel function. Everything outside the sentinels keeps its bytes. Facts: PyPTO's kernel wrappers of all vintages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pypto_build.facts.positions import SourcePosition

from .errors import PtoError

BODY_SENTINEL = "// --- ptoas-generated code ---"
_BEGIN = re.compile(rf"^[ \t]*{re.escape(BODY_SENTINEL)}[ \t]*$", re.M)
# until 2026-03-28 the end was called the CCE-compatible entry point
_END = re.compile(r"^[ \t]*// --- (Kernel|CCE-compatible) entry point ---[ \t]*$", re.M)


@dataclass(frozen=True)
class Sentinels:
    """Offsets of the body in a wrapper: after the line of the first sentinel, up to the second sentinel."""

    begin: int
    end: int
    old_style: bool  # the wording before 2026-03-28


def find_sentinels(wrapper: str, path: str = "<wrapper>") -> Sentinels:
    """Return the offsets of the body. Raises PtoError if the wrapper lacks a pair of sentinels."""
    begin, end = _BEGIN.search(wrapper), _END.search(wrapper)
    if begin is None or end is None or end.start() < begin.end():
        what = f"has no '{BODY_SENTINEL}' line" if begin is None else "has no line of the entry point after the body"
        raise PtoError(
            SourcePosition(path), f"{what}, so no new body can be written into this file; compile the program again"
        )
    return Sentinels(begin.end() + 1, end.start(), end[1] != "Kernel")


def body_of(wrapper: str, path: str = "<wrapper>") -> str:
    """Return the body of a wrapper without surrounding blank lines."""
    sentinels = find_sentinels(wrapper, path)
    return wrapper[sentinels.begin : sentinels.end].strip("\n")


def replace_body(wrapper: str, body: str, path: str = "<wrapper>") -> str:
    """Return the wrapper with another body; every other byte is unchanged."""
    sentinels = find_sentinels(wrapper, path)
    stripped = body.strip("\n")
    return f"{wrapper[: sentinels.begin]}{stripped}\n\n{wrapper[sentinels.end :]}"


# --- raw ptoas output ------------------------------------------------------------------------------------------------

_DROPPED = re.compile(
    r'\s*#\s*include\s*[<"].*(?:pto-inst|cstdint|tensor\.h).*|\s*using namespace pto;\s*|\s*set_ffts_base_addr\(.*'
)
_ENTRY = re.compile(r'(?:extern\s+"C"\s+)?(?:__global__\s+)?(?:static\s+)?\bAICORE\s+void\b')
# `__ubuf__ float* v2 = v1.data();` or `__gm__ float* v2 = (__gm__ float*) v1;`
_POINTER_ALIAS = re.compile(
    r"^[ \t]*(?:__gm__|__ubuf__)\s+[\w:<>]+\s*\*\s*(\w+)\s*=\s*(?:(\w+)\.data\(\)|\([^()]*\*\)\s*(\w+));[ \t]*\n", re.M
)
_MGATHER = re.compile(r"(\bMGATHER(?:<[^;()]{0,400}>)?\()([^()]{0,4000})(\))")


def _restore_mgather(text: str) -> str:
    """Replace raw pointers in calls of MGATHER by the tiles and tensors they came from; remove pointers that are
    then unused.
    """
    aliases = {match[1]: match[2] or match[3] for match in _POINTER_ALIAS.finditer(text)}
    used = {word for match in _MGATHER.finditer(text) for word in re.findall(r"\w+", match[2])} & aliases.keys()
    text = _MGATHER.sub(lambda m: m[1] + re.sub(r"\w+", lambda w: aliases.get(w[0], w[0]), m[2]) + m[3], text)
    unused = {name for name in used if len(re.findall(rf"\b{name}\b", text)) == 1}
    return _POINTER_ALIAS.sub(lambda match: "" if match[1] in unused else match[0], text)


def preprocess(raw: str, wrapper: str = "") -> str:
    """Return raw ptoas output as the body of a wrapper.

    Include lines and `using namespace pto` go, entry functions become `static __aicore__ void`, AICORE becomes
    `__aicore__`. MGATHER gets back the operands that ptoas <= 0.53 replaced by raw pointers. `Tensor` becomes
    `ChipTensor` unless the wrapper is older than that name.
    """
    text = "\n".join(line for line in raw.split("\n") if not _DROPPED.fullmatch(line))
    text = _restore_mgather(text)
    if not wrapper or "ChipTensor" in wrapper:
        text = re.sub(r"\bTensor\b", "ChipTensor", text)
    text = _ENTRY.sub("static __aicore__ void", text)
    return re.sub(r"\bAICORE\b", "__aicore__", text)


# --- signatures ------------------------------------------------------------------------------------------------------

_FUNCTION = re.compile(
    r"^[ \t]*(?:static\s+)?(?:__aicore__|AICORE)\s+(?:inline\s+)?void\s+(\w+)\s*\(([^()]*)\)\s*\{", re.M
)


_MOST_ARGUMENTS = 512


@dataclass(frozen=True)
class Parameter:
    type: str
    name: str


def functions_of(body: str) -> dict[str, tuple[Parameter, ...]]:
    """Return the kernel functions that a body defines, with their parameters. Helpers that ptoas adds count as
    functions too.
    """
    return {name: _parameters(text) for name, text in _FUNCTION.findall(body)}


def _parameters(text: str) -> tuple[Parameter, ...]:
    parameters = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name = re.search(r"(?<!\w)\w*\Z", part)
        assert name is not None  # it may be empty
        parameters.append(Parameter(_plain(part[: name.start()]), name[0]))
    return tuple(parameters)


def _plain(type_: str) -> str:
    """Return a type without qualifiers and with normalised blanks."""
    words = re.sub(r"\b(?:__gm__|const|volatile)\b", " ", type_).replace("*", " * ").split()
    return " ".join(words).replace(" *", "*")


def forwarded_arguments(wrapper: str, function: str, path: str = "<wrapper>") -> tuple[Parameter, ...]:
    """Return the arguments that `kernel_entry` passes to `function`: name and type of each, in order.

    The type is empty if it is not declared.
    """
    entry = wrapper[find_sentinels(wrapper, path).end :]
    call = re.search(rf"(?<![\w.])(?:\w+::){{0,9}}{re.escape(function)}\s*\(([^;{{]{{0,20000}})\)\s*;", entry)
    if call is None:
        raise PtoError(SourcePosition(path), f"kernel_entry does not call {function}")
    arguments = []
    names = [name for name in map(str.strip, call[1].split(",")) if name]
    if len(names) > _MOST_ARGUMENTS:
        raise PtoError(
            SourcePosition(path),
            f"kernel_entry passes {len(names)} arguments to {function}, more than any kernel takes",
        )
    for name in names:
        declared = re.search(
            rf"^[ \t]*(?!return\b)([\w:]+(?:[ \t]+[\w:]+)*[\s*]*?)\b{re.escape(name)}\s*[=;{{]", entry, re.M
        )
        arguments.append(Parameter(_plain(declared[1]) if declared else "", name))
    return tuple(arguments)


def called_function(wrapper: str, functions: Iterable[str]) -> str | None:
    """Return the one of `functions` that the `kernel_entry` of a wrapper calls; None if it calls none."""
    for function in functions:
        try:
            forwarded_arguments(wrapper, function)
        except PtoError:
            continue
        return function
    return None


def compare_signature(wrapper: str, function: str, parameters: tuple[Parameter, ...], path: str = "<wrapper>") -> None:
    """Raise PtoError naming the first parameter that does not match the wrapper's forwarded argument."""
    arguments = forwarded_arguments(wrapper, function, path)
    for number, (argument, parameter) in enumerate(zip(arguments, parameters, strict=False)):
        if argument.type and argument.type != parameter.type:
            raise PtoError(
                SourcePosition(path),
                f"argument {number} of {function} no longer fits: kernel_entry passes {argument.type} {argument.name}, "
                f"the new function takes {parameter.type} {parameter.name}; compile the program again",
            )
    if len(arguments) == len(parameters):
        return
    if len(arguments) < len(parameters):
        extra = parameters[len(arguments)]
        detail = f"argument {len(arguments)} ({extra.type} {extra.name}) has no value"
    else:
        detail = f"argument {len(parameters)} ({arguments[len(parameters)].name}) is no longer taken"
    raise PtoError(
        SourcePosition(path),
        f"{detail}: kernel_entry passes {len(arguments)} arguments to {function}, the new function takes "
        f"{len(parameters)}; compile the program again",
    )


def has_signature(wrapper: str, function: str, parameters: tuple[Parameter, ...], path: str = "<wrapper>") -> bool:
    """Return whether the wrapper's forwarded arguments fit the function."""
    try:
        compare_signature(wrapper, function, parameters, path)
    except PtoError:
        return False
    return True


@dataclass(frozen=True)
class Spliced:
    """The new text of a wrapper, and whether it differs from the old one."""

    path: str
    text: str
    changed: bool


def splice_unit(body: str, wrappers: Mapping[str, tuple[str, str]]) -> dict[str, Spliced]:
    """Put a unit's body into the wrapper of each of its functions.

    `wrappers` maps a function's name to (path, text). Functions without a wrapper are helpers. Nothing is returned
    unless everything fits: a wrapper whose arguments no longer match, or a body without any of the functions, raises
    PtoError.
    """
    functions = functions_of(body)
    missing = [name for name in wrappers if name not in functions]
    if missing:
        path = wrappers[missing[0]][0]
        names = ", ".join(functions) or "none"
        raise PtoError(
            SourcePosition(path),
            f"the unit no longer defines {missing[0]} (it defines {names}); compile the program again",
        )
    result = {}
    for name, (path, text) in wrappers.items():
        compare_signature(text, name, functions[name], path)
        new = replace_body(text, body, path)
        result[name] = Spliced(path, new, new != text)
    return result
