"""How much a finding explains: which is the cause, which may be, which only lies beside it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pypto_build.diagnose.findings import Finding, in_order
from pypto_build.replay.verdict import Verdict

# Two tasks or two parts of one that touch the same bytes, and nothing orders them.
_ORDER = frozenset({"hazards/raw", "hazards/war", "hazards/waw", "hazards/lanes", "hazards/blocks", "flaky/order"})
# What a kernel computes, whatever the order.
_VALUES = frozenset({"diverge/kernel", "diverge/module", "diverge/orchestration"})
# Why a run ended.
_ENDS = frozenset({"hazards/fault", "hazards/hang", "hazards/out-of-bounds"})

#: From here on nothing else is looked for.
CERTAIN = 90
_LIKELY, _POSSIBLE, _BESIDE = 70, 50, 20


@dataclass(frozen=True)
class Evidence:
    """What is known besides findings: how the replay ended, and what other orders of its tasks gave.

    ``orders`` is how many were run; ``varied`` says which of them gave other bits than the first, empty for none.
    """

    verdict: Verdict
    orders: int = 0
    varied: str = ""

    @property
    def order_excluded(self) -> bool:
        """Whether other orders gave the same bits."""
        return self.orders > 1 and not self.varied

    @property
    def ended(self) -> bool:
        """Whether the run did not come to its end."""
        return self.verdict.status in ("runtime_error", "hang")


@dataclass
class Answer:
    """The findings of all instruments, most telling first, and what was excluded or not looked at."""

    evidence: Evidence
    found: list[tuple[int, Finding]] = field(default_factory=list)
    excluded: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def add(self, findings: Iterable[Finding]) -> None:
        """Take what an instrument found."""
        self.found += [(weigh(finding, self.evidence), finding) for finding in in_order(findings)]
        self.found.sort(key=lambda pair: -pair[0])

    @property
    def certain(self) -> bool:
        """Whether there is nothing more to look for."""
        return bool(self.found) and self.found[0][0] >= CERTAIN


def weigh(finding: Finding, evidence: Evidence) -> int:
    """How much ``finding`` explains of how the run ended, from 0 to 100."""
    if finding.level == "note":
        return 0
    if finding.level == "warning":
        return _BESIDE
    if finding.rule in _ENDS and evidence.ended:
        return 100 if finding.line else CERTAIN
    if finding.rule in _ORDER:
        return _of_the_order(finding, evidence)
    if finding.rule in _VALUES:
        return 100 if finding.line else CERTAIN
    if finding.rule == "lint/artifact":
        return 100  # it cannot even be read
    if evidence.ended:
        return _LIKELY
    return _LIKELY if finding.path and finding.line else _POSSIBLE


def _of_the_order(finding: Finding, evidence: Evidence) -> int:
    if finding.rule == "flaky/order":
        return 95
    if evidence.varied:
        return 100
    return _BESIDE if evidence.order_excluded else _LIKELY
