"""Decides from a unit's preprocessed text whether its own code may change the meaning of templates in this package's
headers.

A template means the same in every unit, except for names that are looked up at its use: specialisations, and functions
in the namespaces of its arguments. A text that adds neither leaves every instance unchanged, whatever else it declares.
In case of doubt the answer is that the text may change them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from pypto_build.artifact.files import read_text

#: Namespaces of our headers and of the C++ library, to which other code may not add.
FOREIGN = frozenset({"pto", "pypto", "std", "cce"})
#: Namespaces of our headers without types, so that nothing is looked up there: older kernels bring their own.
OPEN = frozenset({"cache_line_t", "dcci_dst_t"})
#: Types of our headers in the global namespace, as they are in symbols: functions there belong to them.
GLOBAL_TYPES = (
    *("half", "bfloat16_t", "float8_e4m3_t", "float8_e5m2_t", "float8_e8m0_t", "hifloat8_t"),
    *("float4_e2m1x2_t", "float4_e1m2x2_t", "pipe_t"),
    *("PyptoMemory", "PyptoCheck", "PyptoPipe", "PyptoPipeSpec", "PyptoCoreContext", "PyptoSpace"),
)

_MARKER = re.compile(r'# \d+ "((?:[^"\\]|\\.)*)"((?: \d)*)$')
_MARKER_OF_THE_USER = re.compile(r"(?m)^[ \t]*(?:#|%:|\?\?=)[ \t]*\d")
_LITERAL = re.compile(r'"(?:[^"\\\n]|\\.)*"|(?<![0-9a-zA-Z_])(?:u8|[uUL])?\'(?:[^\'\\\n]|\\.)*\'')
_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_UNREAD = re.compile(r'R"|<%|%>|<:|\?\?')
_PRAGMA = re.compile(r"(?m)^[ \t]*#(.*)$")
_HARMLESS = re.compile(r"\s*pragma\s+(?:once\b|message\b|unroll\b|GCC\s+(?:unroll|ivdep|diagnostic|pch_preprocess)\b)")
_NAMESPACE = re.compile(r"\s*(?:\w+\s*=[\s\w:]*;|((?:inline\s+)?\w+(?:\s*::\s*(?:inline\s+)?\w+)*)?\s*\{)")
_OF_A_SPACE = re.compile(r'(?:\bextern\s*""|\bnamespace\b[^;{}()]*)\s*\{$')
# Longer declarations and names are left in doubt.
_LONGEST, _LONGEST_NAME = 4096, 256
_TO_BODY = re.compile(r"([^({;=]*)([({;=])")
_WITH_VALUE = re.compile(r"\b(?:__attribute__|alignas|decltype|__typeof__|explicit|noexcept)\s*$")
_CALLED = re.compile(r"(?<![\w.>:])([A-Za-z_]\w*)\s*\(")
# Words before a parenthesis that are no functions, and functions of older kernels that no template calls.
_NO_FUNCTIONS = frozenset(
    (
        *("if", "for", "while", "switch", "return", "sizeof", "alignof", "alignas", "decltype", "noexcept"),
        *("static_assert", "defined", "visibility", "constexpr", "__attribute__", "void", "bool", "char"),
        *("short", "int", "long", "float", "double", "unsigned", "kernel_entry", "dcci", "dsb", "get_subblockid"),
    )
)


def own_text(expanded: str, headers: Path) -> str | None:
    """Return the user's part of a preprocessed unit: the lines from neither ``headers`` nor system headers.

    Return None if a source has its own line markers, so that the origin of lines is unknown.
    """
    lines: list[str] = []
    mine, outer, ours = True, list[bool](), f"{headers}/"
    for line in expanded.splitlines():
        marker = _MARKER.match(line)
        if marker is None:
            if mine:
                lines.append(line)
        elif "1" in (flags := marker[2].split()):
            outer.append(mine)
            mine = "3" not in flags and not marker[1].startswith(ours)
            if mine and _has_markers(Path(marker[1])):
                return None
        elif "2" in flags and outer:
            mine = outer.pop()
    return "\n".join(lines)


def _has_markers(file: Path) -> bool:
    try:
        return has_markers(read_text(file, errors="replace"))
    except OSError:
        return True


def has_markers(source: str) -> bool:
    """Return True if a source has lines that look like a preprocessor's line markers."""
    return _MARKER_OF_THE_USER.search(source.replace("\\\n", "")) is not None


def leaves_templates_alone(text: str) -> bool:
    """Return True if a preprocessed text adds no names that templates of other headers look up."""
    if _UNREAD.search(text):
        return False
    text = _LITERAL.sub('""', text)
    if not all(_HARMLESS.match(match[1]) for match in _PRAGMA.finditer(text)):
        return False
    text = _PRAGMA.sub("", text)
    checks = {"namespace": _is_own, "template": _is_new, "operator": _is_member}
    words = re.finditer(r"\b(?:namespace|template|operator|export|import)\b", text)
    return all(word[0] in checks and checks[word[0]](text, word) for word in words)


def _is_own(text: str, word: re.Match[str]) -> bool:
    """Return True for a namespace that is imported, or defined by the text itself."""
    if re.search(r"\busing\s*$", text[max(0, word.start() - 99) : word.start()]):
        return True
    match = _NAMESPACE.match(text, word.end())
    names = re.findall(r"\w+", match[1] or "") if match else []
    return match is not None and not any(name in FOREIGN or name.startswith("__") for name in names)


def _is_new(text: str, word: re.Match[str]) -> bool:
    """Return True if the word `template` begins a new template, which neither specialises nor defines a part of
    another.
    """
    if re.search(r"(?:\.|->|::)\s*$", text[max(0, word.start() - 99) : word.start()]):
        return True  # says that the name which follows is a template
    end = _end_of_parameters(text, word.end())
    words = _declarator(text, end) if end is not None else ""
    if match := re.match(r"(?:struct|class|union)\b((?:[^:]|::)*)", words):
        return "<" not in match[1] and "::" not in match[1]
    return bool(words) and not re.search(r"(?:>|::\s*~?\w+)$", words)


def _declarator(text: str, start: int) -> str:
    """Return the declaration at ``start``, up to its parameters, value or body, without attributes; empty in case of
    doubt.
    """
    words, position = "", start
    end = start + _LONGEST
    while position < end and (match := _TO_BODY.match(text, position, end)):
        words += match[1]
        if match[2] != "(" or not (attribute := _WITH_VALUE.search(words)):
            doubtful = match[2] == "(" and text[match.end() : match.end() + 1] in "*&("
            return "" if doubtful else words.strip()
        words = words[: attribute.start()]
        depth, position = 1, match.end()
        while depth and position < min(end, len(text)):
            depth += {"(": 1, ")": -1}.get(text[position], 0)
            position += 1
    return ""


def _end_of_parameters(text: str, start: int) -> int | None:
    """Return the end of `<…>`; None if it is empty or unterminated."""
    depth = inner = 0
    opened = re.compile(r"\s*<\s*(?!>)").match(text, start)
    if opened is None:
        return None
    for position in range(text.index("<", start), min(len(text), start + _LONGEST)):
        match text[position]:
            case "(":
                inner += 1
            case ")":
                inner -= 1
            case "<" if not inner:
                depth += 1
            case ">" if not inner and text[position - 1] != "-":
                depth -= 1
                if not depth:
                    return position + 1
            case "{" | ";":
                return None
    return None


def _is_member(text: str, word: re.Match[str]) -> bool:
    """Return True for an operator that must be a class member: a call, or a conversion."""
    return re.compile(r"\s*(?:\(\s*\)|(?!new\b|delete\b|co_await\b)[A-Za-z_:])").match(text, word.end()) is not None


def is_about_global_types(symbols: Iterable[str]) -> bool:
    """Return True if a symbol mentions a global type of this package's headers."""
    return any(f"{len(name)}{name}" in symbol for symbol in symbols for name in GLOBAL_TYPES)


def declares_names_of(headers: Path, text: str) -> bool:
    """Return True if a text may declare a global function whose name is also used in ``headers``.

    A template that is used with a global type may find that function.
    """
    text = _COMMENT.sub(" ", _LITERAL.sub('""', text))
    return not _identifiers(headers).isdisjoint(_declared(text))


@cache
def _identifiers(headers: Path) -> frozenset[str]:
    identifiers = set[str]()
    for file in (headers / "pto").rglob("*.h*"):
        identifiers.update(_CALLED.findall(file.read_text(encoding="utf-8", errors="replace")))
    return frozenset(identifiers - _NO_FUNCTIONS)


def _declared(text: str) -> Iterator[str]:
    """Yield the names before a parenthesis at namespace level."""
    depth = 0
    for piece in re.finditer(r"[^{}]*([{}]?)", text):
        if not depth:
            yield from _CALLED.findall(piece[0])
        if piece[1] == "}":
            depth = max(0, depth - 1)
        elif piece[1] and (depth or not _OF_A_SPACE.search(piece[0][-_LONGEST_NAME:])):
            depth += 1
