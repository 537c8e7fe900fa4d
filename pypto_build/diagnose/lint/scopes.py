"""Rules on scopes: what the runtime accepts inside each other, and what manual scopes leave to the program."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pypto_build.diagnose.findings import Finding
from pypto_build.diagnose.lint.subject import Subject
from pypto_build.diagnose.lint.text import matching

_SCOPE = re.compile(r"\bPTO2_SCOPE\s*\((?P<mode>[^)]{0,999})\)\s*\{")
_MAX_DEPTH = 64


def check_scopes(subject: Subject) -> Iterator[Finding]:
    """An automatic scope inside a manual one is refused."""
    code = subject.orchestration.code
    opened: list[tuple[int, bool, int]] = []  # end, manual, line
    for match in _SCOPE.finditer(code.code):
        opened = [scope for scope in opened if scope[0] > match.start()]
        manual, line = "MANUAL" in match["mode"], code.line(match.start())
        outer = next((scope for scope in opened if scope[1]), None)
        if outer and not manual:
            yield subject.in_orchestration(
                line,
                "scope-nesting",
                f"an automatic scope inside the manual one of line {outer[2]}: the run fails with INVALID_ARGS (5)",
                "write PTO2_SCOPE(PTO2ScopeMode::MANUAL) here too, or take the scope out",
            )
        opened.append((matching(code.code, match.end() - 1), manual, line))
        if len(opened) == _MAX_DEPTH + 1:
            yield subject.in_orchestration(
                line, "scope-depth", f"scopes nested deeper than {_MAX_DEPTH}", "close the outer ones earlier"
            )
