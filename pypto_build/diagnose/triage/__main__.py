"""`scons triage`: why a replay fails, is flaky or stuck. Runs the instruments until the cause is certain.

python -m pypto_build.diagnose.triage ARTIFACT_DIR --platform P --build-dir OUT --embedded PATH [--binaries DIR]

OUT has the verdict of the replay. Without --binaries, instruments that need the checked build are left out.
With --until lint, triage stops after lint. It then prints nothing and returns 0, unless the cause is certain.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from msgspec.structs import replace as replaced

from pypto_build import terminal
from pypto_build.artifact import is_distributed, load_artifact
from pypto_build.artifact.compiled_files import program_of
from pypto_build.artifact.errors import ArtifactError, require_torch
from pypto_build.artifact.files import write_bytes
from pypto_build.artifact.last_pass import LAST_PASS
from pypto_build.artifact.modules import spliced_modules
from pypto_build.diagnose import console
from pypto_build.diagnose.console import add_chips, command, taking_long, tool_parser
from pypto_build.diagnose.findings import Finding, Report, as_json, as_sarif, read_report, state_of
from pypto_build.diagnose.outcomes.__main__ import CODE_QUALITY, TestOutcome, as_code_quality, as_junit, github_lines
from pypto_build.diagnose.repeat import Repeat, add_passed_on, written_options
from pypto_build.diagnose.requests import request_of
from pypto_build.diagnose.triage.causes import Answer, Circumstances
from pypto_build.diagnose.triage.edited import edited_findings
from pypto_build.diagnose.triage.experiments import try_orders
from pypto_build.diagnose.triage.golden import golden_findings
from pypto_build.diagnose.triage.remedy import try_edits
from pypto_build.diagnose.triage.scratch import counted, with_torch
from pypto_build.facts.outcomes import Word
from pypto_build.replay import Request
from pypto_build.replay.verdict import Verdict, read_verdict
from pypto_build.toolchain.python import own_tool

# More than this in the list of what else was found is for the instruments themselves to tell.
_ALSO = 6
_ENDED = {
    "pass": "it passes",
    "unchecked": "there is no golden",
    "hang": "it hangs",
    "runtime_error": "it ends early",
    "build_error": "it does not build",
}
# What an instrument excludes that finds nothing.
_LOOKED_FOR = {
    "lint": "files that contradict each other",
    "hazards": "accesses that are unordered, misdeclared or out of bounds",
    "diverge": "kernels that compute something else than their modules",
    "flaky": "outputs that vary with the order",
}
# What came of the edits of the first finding.
_TRIED = {
    True: "tried in a copy: with this edit it passes",
    False: "tried in a copy: with this edit alone it still fails",
    None: "not tried",
}
# Findings whose edits were tried when they were made.
_TRIED_BEFORE = ("triage/edited", "diverge/trial")
# A run that takes longer is not repeated in other orders.
_SHORT_S = 10.0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = tool_parser("triage", __doc__)
    add = options.add_argument
    add("artifact", type=Path, metavar="ARTIFACT_DIR")
    add("--platform", default="a2a3sim", metavar="P", help="a2a3sim or a5sim")
    add("--build-dir", type=Path, required=True, metavar="OUT", help="where it was replayed")
    add("--embedded", type=Path, required=True, metavar="PATH", help="the embedded runtime's extension module")
    add("--binaries", type=Path, metavar="DIR", help="where the checked binaries are")
    add("--kernels", type=Path, metavar="DIR", help="where the binaries of the replay are, if not in OUT")
    add("--until", choices=("lint",), help="end after this instrument")
    add("--json", type=Path, metavar="FILE", help="also write the findings as JSON")
    add("--sarif", type=Path, metavar="FILE", help="also write the findings as SARIF 2.1.0")
    add("--junit", type=Path, metavar="FILE", help="also write the answer as JUnit's XML")
    add("--annotate", default="", metavar="CI", help="github or gitlab: also write the findings as annotations")
    add_passed_on(options)  # --world and --devices are among them
    add_chips(options)
    return options


class Triage:
    """The instruments for one artifact, and their results."""

    def __init__(self, options: argparse.Namespace, verdict: Verdict, repeat: Repeat) -> None:
        self.options, self.verdict, self.repeat = options, verdict, repeat
        self.answer = Answer(Circumstances(verdict))
        self.remedy: bool | None = None  # whether it passes with the edits of the first finding; None: not tried

    def run(self) -> None:
        """Run the instruments that are needed, the cheapest first."""
        steps: dict[str, Callable[[], None]] = {
            "edits": self._edited,
            "golden": self._golden,
            "lint": self.lint,
            "other orders": self._orders,
            "hazards": self._hazards,
            "diverge": self._diverge,
            "flaky": self._flaky,
        }
        for number, (name, step) in enumerate(steps.items(), 1):
            step()
            if self.answer.certain and number < len(steps):
                self.answer.left_out.append(f"{', '.join(list(steps)[number:])} (the cause is certain)")
            if self.answer.certain or name == self.options.until:
                return

    def try_remedy(self) -> None:
        """Try the edits that the first finding proposes, where the replay fails."""
        first = next((finding for finding in self.answer.ranked if finding.level == "error"), None)
        if first is None or not first.edits or first.rule in _TRIED_BEFORE or self.verdict.status == "pass":
            return
        if is_distributed(self.options.artifact):
            return
        with taking_long("the edit in a copy"):
            scratch = self.options.build_dir / "triage" / "remedy"
            words = [f"PLATFORM={self.options.platform}", *(f"DATA={data}" for data in [self.options.data] if data)]
            self.remedy = try_edits(load_artifact(self.options.artifact), first.edits, scratch, words)

    def _edited(self) -> None:
        """Undo the edits since the last pass in a copy, and check whether the copy passes."""
        options = self.options
        program = program_of(options.artifact)
        if options.until or self.verdict.status == "pass" or is_distributed(options.artifact):
            return
        if program is None and not (options.build_dir / LAST_PASS).is_dir():
            return
        with taking_long("what was edited"):
            words = [f"PLATFORM={options.platform}", *(f"DATA={data}" for data in [options.data] if data)]
            edits = edited_findings(load_artifact(options.artifact), options.build_dir, words, self._flags, program)
        self.answer.add(edits.findings)
        places = ", ".join(dict.fromkeys(f"{one.path}:{one.line}" if one.line else one.path for one in edits.edited))
        if not places:
            self.answer.excluded.append(f"edits (nothing is {edits.since})")
        elif not edits.findings:
            self.answer.excluded.append(f"what is {edits.since}, alone (put back, it fails too: {places})")

    @property
    def _flags(self) -> list[str]:
        """The flags to compile the program with."""
        vintage = ["--vintage", self.verdict.vintage] if self.verdict.vintage else []
        return ["--platform", self.options.platform, *vintage]

    def _golden(self) -> None:
        """Check that the golden is the reference's result for the inputs."""
        options = self.options
        program = program_of(options.artifact)
        if options.until or self.verdict.status != "mismatch" or options.data:
            return
        if program is None and not any(
            (options.artifact / name).is_file() for name in ("data/golden.json", "golden.py")
        ):
            return
        with taking_long("golden"):
            artifact = load_artifact(options.artifact)
            findings, follows = golden_findings(
                artifact, options.build_dir, [f"PLATFORM={options.platform}"], program, self._flags
            )
        self.answer.add(findings)
        self.answer.excluded += [follows] if follows else []

    def lint(self) -> None:
        """Takes what lint finds."""
        from pypto_build.diagnose.lint.__main__ import lint

        self.take("lint", lint(self.options.artifact, self.options.platform, self.options.build_dir))

    def _orders(self) -> None:
        if self.answer.evidence.ended or self.verdict.run_s > _SHORT_S:
            self.answer.left_out.append("other orders (the run does not end, or takes long)")
            return
        orders = try_orders(self.request())
        counted.replays += 1 + orders.runs
        self.answer.evidence = Circumstances(self.verdict, orders.runs, orders.varied)
        if not orders.varied:
            self.answer.excluded.append(f"the order of the tasks ({orders.runs} other orders give the same bits)")

    def _hazards(self) -> None:
        if self.options.binaries is None:
            self.answer.left_out.append("hazards (there is no checked build)")
            return
        self._tool("hazards", ["--binaries", str(self.options.binaries), *self._weak()])

    def _diverge(self) -> None:
        try:
            require_torch("the reference")
        except ArtifactError as error:
            self.answer.left_out.append(f"diverge ({error})")
            return
        if self.verdict.status == "hang":
            self.answer.left_out.append("diverge (the run does not end)")
            return
        self._tool("diverge", self._kernels)

    def _flaky(self) -> None:
        if self.answer.evidence.ended:
            self.answer.left_out.append("flaky (the run does not end)")
            return
        if self.answer.evidence.order_excluded and any(f.rule == "diverge/trial" for f in self.answer.findings):
            self.answer.left_out.append("flaky (an edit explains it, and other orders give the same bits)")
            return
        self._tool("flaky", ["--rounds", "20", *self._kernels, *self._weak()])

    def _weak(self) -> list[str]:
        return ["--memory-model", self.options.memory_model] if self.options.memory_model else []

    def _tool(self, name: str, words: Sequence[str]) -> None:
        """Run an instrument on the built artifact, and read the findings that it writes."""
        options = self.options
        kept = options.build_dir / "findings" / f"{name}.json"
        kept.unlink(missing_ok=True)
        command = [
            *own_tool(f"pypto_build.diagnose.{name}"),
            str(options.artifact),
            "--platform",
            options.platform,
        ]
        command += [
            "--build-dir",
            str(options.build_dir),
            "--embedded",
            str(options.embedded),
            *words,
            *self._of_the_run(),
        ]
        with taking_long(name):
            status, text = with_torch.run(command, os.environ)
        if not kept.is_file():
            why = (text.strip() or f"status {status}").splitlines()[-1]
            self.answer.left_out.append(f"{name} ({why})")
            return
        self.take(name, read_report(kept).findings)

    @property
    def _kernels(self) -> list[str]:
        return ["--binaries", str(self.options.kernels)] if self.options.kernels else []

    def _of_the_run(self) -> Iterator[str]:
        """Return the flags of all instruments that start a run."""
        options = self.options
        flags = ("--data", "--seed", "--timeout", "--numerics", *(("--world", "--devices") if options.chip else ()))
        for flag in flags:
            value = getattr(options, flag.removeprefix("--"))
            if value is not None:
                yield from (flag, str(value))
        for word in options.chip:
            yield from ("--chip", word)

    def take(self, name: str, findings: Sequence[Finding]) -> None:
        """Add the findings of an instrument; if they are notes only, record that it excluded its cause."""
        self.answer.add(findings)
        if not any(finding.level != "note" for finding in findings):
            self.answer.excluded.append(f"{_LOOKED_FOR[name]} ({name})")

    def request(self) -> Request:
        """Return the request for a run like the verdict's, with separate results."""
        options = self.options
        return replace(
            request_of(
                argparse.Namespace(**{**vars(options), "binaries": options.kernels}), options.build_dir / "triage"
            ),
            seed=int(options.seed or 0),
            timeout_s=float(options.timeout or 60.0),
        )


@command("triage", parser)
def main(options: argparse.Namespace) -> int:
    """1 where a cause is found, else the exit status of the replay."""
    verdict = read_verdict(options.build_dir / "verdict.json")
    begun = time.monotonic()
    triage = Triage(options, verdict, written_options(options.words))
    try:
        triage.run()
    finally:
        with_torch.close()
    if options.until and not triage.answer.certain:
        return 0
    triage.try_remedy()
    ranked = triage.answer.ranked
    lines = list(lines_of(triage))
    _keep(options, ranked, _outcome(triage, lines))
    terminal.say(*lines)
    terminal.say(f"    took: {time.monotonic() - begun:.1f} s, {console.counted(counted.replays, 'replay')}")
    return 1 if any(finding.level == "error" for finding in ranked) else verdict.exit_status


def _outcome(triage: Triage, lines: Sequence[str]) -> TestOutcome:
    """Return the answer as the outcome of a test by the artifact's name."""
    options, verdict = triage.options, triage.verdict
    cause = next((finding for finding in triage.answer.ranked if finding.level == "error"), None)
    reason = f"{cause.position}: {cause.message}" if cause else _ended(verdict)
    word: Word = "PASS" if verdict.status == "pass" and not cause else "FAIL"
    return TestOutcome(
        verdict.artifact,
        word,
        artifact=str(options.artifact),
        verdict=os.path.relpath(options.build_dir / "verdict.json"),
        reason=reason,
        text="\n".join(lines),
        failed=word == "FAIL",
    )


def _keep(options: argparse.Namespace, findings: Sequence[Finding], outcome: TestOutcome) -> None:
    """Write the files and annotations that are asked for; the annotation of the cause comes first."""
    ci, root = options.annotate, options.artifact
    if ci == "github":
        located = [replaced(one, path=os.path.relpath(root / one.path)) if one.path else one for one in findings]
        terminal.say(*github_lines([one for one in located if one.level == "error"]))
    report = Report("triage", options.artifact.name, tuple(findings), state=state_of(options.artifact))
    files = {options.json: as_json(report), options.sarif: as_sarif(report, options.artifact)}
    files[options.build_dir / "findings" / "triage.json"] = as_json(report)
    files[options.junit] = as_junit([outcome], Path())
    if ci == "gitlab":
        files[options.build_dir.parents[1] / CODE_QUALITY] = as_code_quality(findings)
    for path, data in files.items():
        if path is not None:
            write_bytes(path, data)


def lines_of(triage: Triage) -> Iterator[str]:
    """Return the lines of the answer: the cause, other findings, excluded causes, and checks that were not made."""
    answer, verdict = triage.answer, triage.verdict
    errors = [finding for finding in answer.ranked if finding.level == "error"]
    also = [finding for finding in answer.ranked if finding not in errors[:1]]
    if errors:
        certain = answer.certain and triage.remedy is not False
        yield f"[triage] {verdict.artifact}: {_ended(verdict)}; {'the cause' if certain else 'most likely'}:"
        yield from errors[0].lines
        if errors[0].edits and errors[0].rule not in _TRIED_BEFORE:
            yield f"    {_TRIED[triage.remedy]}"
    elif verdict.error is not None:
        yield f"[triage] {verdict.artifact}: {_ended(verdict)}: {verdict.error}"
    else:
        yield f"[triage] {verdict.artifact}: {_ended(verdict)}, and no instrument finds a cause"
    if answer.evidence.varied:
        yield f"    other bits {answer.evidence.varied}: it depends on the order, or on memory that nobody wrote"
    for module in spliced_modules(triage.options.artifact, triage.options.build_dir):
        says = "was edited: its kernels' own bodies are not spliced, and the run assembled the module"
        yield f"    also: ptoas/{module.name} {says}; to splice it: scons splice WRITE=1"
    for finding in also[:_ALSO]:
        yield f"    also: {finding.position}{': ' if finding.position else ''}{finding.message} [{finding.rule}]"
    if len(also) > _ALSO:
        yield f"    also: {len(also) - _ALSO} more"
    for heading, lines in (("excluded", answer.excluded), ("not run", answer.left_out)):
        if lines:
            yield f"    {heading}: {', '.join(lines)}"


def _ended(verdict: Verdict) -> str:
    wrong = [f"'{output.name}'" for output in verdict.outputs if output.status == "mismatch"]
    if wrong:
        return f"{', '.join(wrong)} differ{'s' if len(wrong) == 1 else ''}"
    return _ENDED.get(verdict.status, verdict.status)


if __name__ == "__main__":
    sys.exit(main())
