"""Counts the rules of a list that the checks of modules find, by kind and platform.

python -m tests.pto.device_coverage RULES.tsv [INSTRUCTION…]

The list has a rule a line: instruction, platform, kind, rule, separated by tabs. A rule in the language of
constraints is broken by a planted violation, and counts as checked if that is reported. So does a rule of an operation with
a format of its own that `device_formats` breaks. The other rules are listed: those in words, and those of operations in
another format.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

from pypto_build.pto.ops import TABLE
from pypto_build.pto.ops.constraints import Constraint, parse_constraints
from tests.pto.device_cases import bases, planted
from tests.pto.device_formats import plant_of
from tests.pto.device_words import EXPRESSIONS, NO_DEMAND

_WORDS: tuple[tuple[str, str], ...] = (
    (r"\s*\[[^\]]*\]", ""),
    (r"\s*\((?:note|docs|not asserted|verifier|the header|a5|C\+\+|dynamic|or dynamic|widening|width|weaker)[^()]*(?:\([^()]*\))?[^()]*\)", ""),
    (r": lowered to .*| \(the scalar is .*| \(widening cannot.*", ""),
    (r"bytes\((\w+)\) disjoint bytes\((\w+)\)", r"apart(\1, \2)"),
    (r"bytes\(dst\) == bytes\((\w+)\)(?: \(same start, same element width\))? or disjoint(?:; partial overlap undefined)?", r"same_or_apart(dst, \1)"),
    (r"address\((\w+)\) == address\((\w+)\)(?: \(in place\).*)?$", r"same_start(\1, \2)"),
    (r"same_or_apart\(dst, src_i\)", "same_or_apart(dst, src0) and same_or_apart(dst, src1)"),
    (r"elem\(([^()]*)\) in \{([^}]*)\}, signedness ignored", r"width(\1) in {\2}"),
    (r"\bsize\(elem(?:\((\w+)\)| (\w+))\)", r"size(\1\2)"),
    (r"^elem == (\w+): ", r"elem(src) == \1 => "),
    (r"^loc\((\w+)\) != acc: ", r"loc(\1) != acc => "),
    (r"^vec: (?=pad)", "loc(dst) == vec => "),
    (r"^mat: (?=pad)", "loc(dst) == mat => "),
    (r"pad\(dst\) != null", "pad(dst) != '0'"),
    (r"pad\(dst\) in \{null, zero\}", "pad(dst) in ('0', '1')"),
    (r"precisionType (?:== )?high_precision => tmp present", "attr(precisionType) == high_precision => present(tmp)"),
    (r"precisionType != high_precision", "attr(precisionType) != high_precision"),
    (r"^scalar >= 0$", "scalar(scalar) >= 0"),
    (r"type\((scalar|start)\) == elem\((\w+)\)", r"width_of(\1) == width(\2)"),
    (r"upperOrLower in \{0, 1\}", "attr(upperOrLower) in (0, 1)"),
    (r"valid\((\w+)\) >= valid\((\w+)\)", r"valid_rows(\1) >= valid_rows(\2) and valid_cols(\1) >= valid_cols(\2)"),
    (r"valid\((\w+)\) <= shape\((\w+)\)", r"valid_rows(\1) <= rows(\2) and valid_cols(\1) <= cols(\2)"),
    (r"row, col >= 0", "scalar(row) >= 0 and scalar(col) >= 0"),
    (r"^block_len > 0 and block_len % 64 == 0", "scalar(block_len) > 0 and scalar(block_len) % 64 == 0"),
    (r"4\*block_len", "4 * scalar(block_len)"),
    (r"(?:^|; )(\w+): row_major, none_box(?:, vec)?", r"blayout(\1) == row_major and slayout(\1) == none_box"),
    (r"^(\w+), (\w+): row_major$", r"blayout(\1) == row_major and blayout(\2) == row_major"),
    (r"^tmp is present.*", "present(tmp)"),
    (r"\b(elem|loc|blayout|slayout|width|size)\((\w+(?:, ?\w+)+)\) (in|==) (\{[^}]*\}|\w+)", "<each>"),
    (r";", " and "),
    (r"\{", "("),
    (r"\}", ",)"),
)  # fmt: skip
_EACH = re.compile(r"\b(elem|loc|blayout|slayout|width|size)\((\w+(?:, ?\w+)+)\) (in|==) (\{[^}]*\}|\w+)")


_RESULTS = ("checked", "missed", "words", "format", "description")


def translated(rule: str, name: str = "") -> str:
    """The rule in the language of constraints, as far as it is an expression."""
    for names, words, expression in EXPRESSIONS:
        if re.fullmatch(names, name.removeprefix("pto.")) and (match := re.match(words, rule)):
            return match.expand(expression)
    for pattern, replacement in _WORDS:
        rule = _EACH.sub(_each, rule) if replacement == "<each>" else re.sub(pattern, replacement, rule)
    return rule.strip()


def _each(match: re.Match[str]) -> str:
    function, names, relation, value = match.groups()
    return " and ".join(f"{function}({name.strip()}) {relation} {value}" for name in names.split(","))


def constraints_of(rule: str, arch: str, name: str = "") -> list[Constraint]:
    """Nothing for a rule that is no expression."""
    try:
        rows = list(parse_constraints(f"shape | {arch} | {translated(rule, name)} | docs | why"))
        return rows if all(row.compiles for row in rows) else []
    except (ValueError, SyntaxError, AssertionError):
        return []


def judge(name: str, arch: str, rule: str) -> str:
    """`checked`, `missed`, `words`, `format`, or `description`."""
    if any(re.fullmatch(names, name.removeprefix("pto.")) and re.search(words, rule) for names, words in NO_DEMAND):
        return "description"
    if rule.startswith("a5 only"):
        return "checked" if any(use.findings("a2a3") for use in bases(name, "a5")) else "missed"
    if plant := plant_of(name, rule):
        return "checked" if plant.is_found() else "missed"
    rows = constraints_of(rule, arch, name)
    if name not in TABLE or any(variant.format for variant in TABLE[name].variants):
        return "format"
    roles = {role.name for role in TABLE[name].roles()}
    rows = [row for row in rows if row.roles <= roles]
    if not rows:
        return "words"
    on = "a5" if arch == "a5" else "a2a3"
    try:
        return "checked" if all(planted(row, name, on, anywhere=True) is not None for row in rows) else "missed"
    except TypeError:  # it only looks like an expression
        return "words"


def main(words: list[str]) -> None:
    counts: Counter[tuple[str, str, str]] = Counter()
    for line in Path(words[0]).read_text(encoding="utf-8").splitlines()[1:]:
        name, arch, kind, rule, *_ = line.split("\t")
        if words[1:] and name not in words[1:]:
            continue
        result = judge(name, arch, rule)
        counts[kind, arch, result] += 1
        if result != "checked":
            print(f"{result}\t{name}\t{arch}\t{kind}\t{rule}", flush=True)
    for kind, arch in sorted({(kind, arch) for kind, arch, _ in counts}):
        numbers = {result: counts[kind, arch, result] for result in _RESULTS}
        print(f"# {kind} {arch}: " + ", ".join(f"{count} {result}" for result, count in numbers.items() if count))
    total = {result: sum(counts[key] for key in counts if key[2] == result) for result in _RESULTS}
    demands = sum(total.values()) - total["description"]
    print(f"# {total['checked']} of {demands} demands are checked, {100 * total['checked'] / max(demands, 1):.1f} %")


if __name__ == "__main__":
    main(sys.argv[1:])
