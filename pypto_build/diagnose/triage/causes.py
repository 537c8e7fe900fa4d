"""Weights of findings: the certain cause, a possible cause, or a finding beside the cause."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from pypto_build.diagnose.findings import Finding, in_order
from pypto_build.replay.verdict import Verdict

# Two tasks or two parts of one that touch the same bytes, and nothing orders them.
_ORDER = frozenset({"hazards/raw", "hazards/war", "hazards/waw", "hazards/lanes", "hazards/blocks"})
# The same between ranks: this machine's schedules hardly ever show what a device's do.
_RANKS = frozenset(
    {"hazards/unordered-ranks", "hazards/window-reused-early", "hazards/signal-set-by-several", "hazards/missing-token"}
)
# What runs in other orders have shown: two tasks, where hazards also knows the declaration to change.
_OF_RUNS = "flaky/order"
# What a kernel computes, whatever the order.
_VALUES = frozenset({"diverge/kernel", "diverge/module", "diverge/orchestration"})
# What makes outputs and golden agree when it is tried.
_TRIAL = "diverge/trial"
# What a task is passed is the orchestration's, whatever its kernel then reads or writes.
_PASSED = frozenset({"hazards/argument-dtype", "hazards/one-for-two"})
# Why a run ended.
_ENDS = frozenset({"hazards/fault", "hazards/hang", "hazards/out-of-bounds"})

# Two files that disagree: what a run does tells which of them is wrong. A kernel that nothing submits is right, what is
# submitted in its place is not.
_EITHER = frozenset({"lint/signature-direction", "lint/never-submitted"})

#: From here on nothing else is looked for.
CERTAIN = 90
_LIKELY, _POSSIBLE, _BESIDE = 70, 50, 20


@dataclass(frozen=True)
class Circumstances:
    """Evidence besides findings: the verdict of the replay, and results of other task orders.

    ``orders`` counts the orders that were run. ``varied`` names those whose outputs differ from the first.
    """

    verdict: Verdict
    orders: int = 0
    varied: str = ""

    @property
    def order_excluded(self) -> bool:
        """Return whether several orders ran and all gave the same bits."""
        return self.orders > 1 and not self.varied

    @property
    def ended(self) -> bool:
        """Return whether the run stopped before its end."""
        return self.verdict.status not in ("pass", "mismatch", "unchecked")


@dataclass
class Answer:
    """The findings of all instruments, the excluded causes, and the checks that were not made."""

    evidence: Circumstances
    findings: list[Finding] = field(default_factory=list)
    excluded: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def add(self, findings: Iterable[Finding]) -> None:
        """Add the findings of an instrument. If another task order changes the outputs, other findings are weighed by
        that.
        """
        self.findings += in_order(findings)
        if not self.evidence.varied and any(finding.rule == _OF_RUNS for finding in self.findings):
            self.evidence = replace(self.evidence, varied="in another legal order")

    @property
    def ranked(self) -> list[Finding]:
        """The findings that explain anything, most telling first."""
        weights = [(weigh(finding, self.evidence), finding) for finding in self.findings]
        return [finding for weight, finding in sorted(weights, key=lambda pair: -pair[0]) if weight]

    @property
    def certain(self) -> bool:
        """Return whether a finding is certain to be the cause, so that the search can stop."""
        return any(weigh(finding, self.evidence) >= CERTAIN for finding in self.findings)


def weigh(finding: Finding, evidence: Circumstances) -> int:
    """Return how well ``finding`` explains the end of the run, from 0 to 100."""
    if finding.level == "note":
        return 0
    if finding.level == "warning":
        return _BESIDE
    if finding.rule in _ENDS and evidence.ended:
        return 100 if finding.line else _LIKELY
    if finding.rule in ("triage/edited", "triage/stale-golden"):
        return 100  # a replay has shown it, or what is compared with is of another input
    if finding.rule in _PASSED:
        return 99
    if finding.rule == "lint/exchanged-numbers":
        return 97  # what else lint finds follows from it
    if finding.rule in _EITHER:
        return _LIKELY
    if finding.rule.startswith("lint/") and finding.line and evidence.verdict.status != "pass":
        return 92  # what contradicts itself cannot be right
    if finding.rule == _OF_RUNS or finding.rule.startswith(("check/", "memory/")):  # what an instruction never may
        return CERTAIN
    if finding.rule.startswith("rules/"):  # of a device: a replay on this machine is seldom wrong by it
        return _POSSIBLE
    if finding.rule == "hazards/out-of-bounds":
        return 95
    if finding.rule in _RANKS:
        return 95 if evidence.varied or evidence.ended else _LIKELY
    if evidence.varied and finding.rule.startswith("hazards/"):
        return 100 if finding.rule in _ORDER else 95
    if finding.rule in _ORDER:
        return _BESIDE if evidence.order_excluded else _LIKELY
    if finding.rule == _TRIAL:  # of two sides either may be wrong
        return CERTAIN - 1 if evidence.order_excluded else _LIKELY
    if finding.rule in _VALUES:
        return 98 if finding.line else CERTAIN
    if finding.rule == "lint/artifact":
        return 100  # it cannot even be read
    if evidence.ended:
        return _LIKELY
    return _LIKELY if finding.path and finding.line else _POSSIBLE
