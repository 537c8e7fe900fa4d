"""Edits of a .pto module that are tried against the golden if there is no program."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pypto_build.diagnose.diverge.trials import Passage, Trial

#: Operations that take the same operands.
_ALIKE = (
    ("tadd", "tsub", "tmul", "tdiv", "tmax", "tmin"),
    ("tadds", "tsubs", "tmuls", "tdivs", "tmaxs", "tmins"),
    ("texp", "tlog", "tsqrt", "trsqrt", "trecip", "tabs", "tneg", "trelu"),
    ("trowsum", "trowmax", "trowmin"),
    ("tcolsum", "tcolmax", "tcolmin"),
    ("trowexpandadd", "trowexpandsub", "trowexpandmul", "trowexpanddiv", "trowexpandmax", "trowexpandmin"),
    ("tcolexpandadd", "tcolexpandsub", "tcolexpandmul", "tcolexpanddiv", "tcolexpandmax", "tcolexpandmin"),
    ("arith.addi", "arith.subi", "arith.muli"),
    ("arith.addf", "arith.subf", "arith.mulf", "arith.divf"),
)
_OTHERS = {name: tuple(other for other in names if other != name) for names in _ALIKE for name in names}
_OPERATION = re.compile(r"\b(?:pto\.)?(?P<name>t[a-z]+|arith\.\w+)\b(?= ins\(| %)")
_OPERANDS = re.compile(r"\bins\((?P<one>%[\w#]+), (?P<other>%[\w#]+)")
_CONSTANT = re.compile(r"= arith\.constant (?P<value>-?[\d.]+(?:e[+-]?\d+)?) : (?P<type>f\d+|index)")
_ROUNDING = re.compile(r"round_mode (?P<mode>RINT|ROUND|FLOOR|CEIL|TRUNC)\b")


def module_trials(text: str) -> list[Trial]:
    """Return the edits of a module's text: operations, operands, roundings, constants."""
    found = [*_operations(text), *_exchanges(text), *_roundings(text), *_constants(text)]
    return list({trial.changes: trial for trial in found}.values())


def _one(match: re.Match[str], group: str, new: str) -> Trial:
    span = Passage(match.start(group), match.end(group), match[group])
    return Trial(f"'{new}' in place of '{span.text}'", ((span, new),))


def _operations(text: str) -> Iterator[Trial]:
    for match in _OPERATION.finditer(text):
        yield from (_one(match, "name", other) for other in _OTHERS.get(match["name"], ()))


def _exchanges(text: str) -> Iterator[Trial]:
    for match in _OPERANDS.finditer(text):
        one, other = (Passage(match.start(name), match.end(name), match[name]) for name in ("one", "other"))
        if one.text != other.text:
            what = f"'{one.text}' and '{other.text}' exchanged"
            yield Trial(what, ((one, other.text), (other, one.text)))


def _roundings(text: str) -> Iterator[Trial]:
    for match in _ROUNDING.finditer(text):
        for mode in ("RINT", "ROUND", "FLOOR", "CEIL", "TRUNC"):
            if mode != match["mode"]:
                yield _one(match, "mode", mode)


def _constants(text: str) -> Iterator[Trial]:
    for match in _CONSTANT.finditer(text):
        if match["type"] == "index":
            value = int(float(match["value"]))
            values = {str(other) for other in (value + 1, value - 1, 2 * value, value // 2, 0, 1) if other >= 0}
        else:
            number = float(match["value"])
            others = {-number, 2 * number, number / 2, 0.0, 1.0, number + 1, number - 1, 10 * number, number / 10}
            values = {f"{other:.9e}" for other in others | ({1 / number} if number else set())}
        yield from (_one(match, "value", value) for value in sorted(values - {match["value"]}))
