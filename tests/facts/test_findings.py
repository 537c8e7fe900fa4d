"""The table of findings has a row for every rule that an instrument reports, and no other."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from pypto_build.diagnose.findings import LEVELS
from pypto_build.facts.findings import RULES, SECTIONS

PACKAGE = Path(__file__).resolve().parents[2] / "pypto_build"
_TOOLS = {rule.partition("/")[0] for rule in RULES}
_RULE = re.compile(rf"({'|'.join(sorted(_TOOLS))})/([a-z]+(?:-[a-z]+)*)\Z")
_NAME = re.compile(r"[a-z]+(?:-[a-z]+)*\Z")
#: Functions of scons lint that make a finding of a rule without its tool.
_OF_LINT = {"in_kernel", "in_orchestration", "in_manifest", "_driver_finding"}


def _trees() -> list[ast.Module]:
    return [ast.parse(path.read_text(encoding="utf-8")) for path in sorted((PACKAGE / "diagnose").rglob("*.py"))]


def _texts(node: ast.AST) -> list[str]:
    return [one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)]


def test_every_rule_in_the_sources_has_a_row() -> None:
    missing = {text for tree in _trees() for text in _texts(tree) if _RULE.match(text)} - RULES.keys()
    for tree in _trees():
        for call in ast.walk(tree):
            if not isinstance(call, ast.Call):
                continue
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            if name in _OF_LINT:
                rules = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
                missing |= {f"lint/{one}" for one in rules if _NAME.match(one) and one not in LEVELS} - RULES.keys()
    assert missing == set()


def test_every_row_is_a_rule_in_the_sources() -> None:
    texts = {text for tree in _trees() for text in _texts(tree)}
    runtime = " ".join(path.read_text(encoding="utf-8") for path in (PACKAGE / "runtime/src").rglob("*.cpp"))
    ends = {"crash", "exception", "exit"}  # kinds of errors in a verdict
    names = {text.rpartition("/")[2] for text in texts} | ends | set(re.findall(r'"([a-z-]+)"', runtime))
    lower = {name.lower() for name in names} | {f"collective-{name}" for name in names}
    assert {rule for rule in RULES if rule.partition("/")[2] not in lower} == set()


def test_a_meaning_is_one_clause() -> None:
    assert sum(map(len, SECTIONS.values())) == len(RULES)
    assert [rule for rule, meaning in RULES.items() if meaning[0].isupper() or meaning.endswith(".")] == []
