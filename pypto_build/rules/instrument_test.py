"""``LintTest`` and ``HazardTest``: run an instrument as a test, with a list of accepted findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from SCons.Action import Action

from pypto_build import terminal
from pypto_build.artifact import artifact_name, is_distributed, snapshot
from pypto_build.artifact.distributed import load_distributed
from pypto_build.artifact.files import read_bytes
from pypto_build.facts.outcomes import Outcome
from pypto_build.facts.verbs import VERBS
from pypto_build.replay.results import NAMES
from pypto_build.rules import distributed
from pypto_build.rules.artifact import ArtifactTargets, chip_words, declare_loaded
from pypto_build.rules.completion import open_artifact
from pypto_build.rules.machinery.actions import run_captured
from pypto_build.rules.machinery.attributes import PLATFORM, Attribute, Kind, Rule, path_attribute
from pypto_build.rules.machinery.inputs import path_of
from pypto_build.rules.machinery.python_tools import python_tool
from pypto_build.rules.machinery.scons_types import Environment, Nodes
from pypto_build.rules.machinery.steps import Step, announce, made_by_us, perform
from pypto_build.rules.machinery.workspace import escape, workspace_of
from pypto_build.rules.tests import declare_test
from pypto_build.rules.variants import CHECKED

#: In OUT: what instruments have found for tests.
INSTRUMENTS = "instruments"
_FINDINGS, _EXAMINED = "findings.json", ".examined"

_COMMON = (
    Attribute("name", (str,), "the name of the target", required=True),
    path_attribute("artifact", Kind.DIRECTORY, "the artifact's directory", required=True),
    PLATFORM,
    Attribute("accept", (list, tuple), "rules whose findings are accepted, such as 'lint/no-drain' or 'hazards/*'"),
    Attribute("tags", (list, tuple), "names that TAGS= selects by"),
)

LINT_TEST = Rule(
    "LintTest",
    "Passes if `scons lint` finds nothing in an artifact but what is accepted; part of `scons test`.",
    _COMMON,
)

HAZARD_TEST = Rule(
    "HazardTest",
    "Passes if `scons hazards` finds nothing in an artifact but what is accepted; part of `scons test`.",
    (
        *_COMMON,
        path_attribute("data", Kind.DIRECTORY, "another directory with in/ and out/ instead of the artifact's data/"),
    ),
)


#: The test by `max_time` of a ReplayTest: of its prediction.
_SPEED_TEST = Rule(
    "ReplayTest",
    "Passes if the predicted range of the time on a device is not above `max_time`.",
    (*HAZARD_TEST.attributes, Attribute("max_time", (float,), "microseconds"), Attribute("chip", (str,), "the chip")),
)
_RULES = {"lint": LINT_TEST, "hazards": HAZARD_TEST, "speed": _SPEED_TEST}


def declare_lint_test(env: Environment, **attributes: Any) -> Nodes:
    """Implement ``LintTest``; return the node of its findings."""
    return declare_instrument_test(env, "lint", attributes)


def declare_hazard_test(env: Environment, **attributes: Any) -> Nodes:
    """Implement ``HazardTest``; return the node of its findings."""
    return declare_instrument_test(env, "hazards", attributes)


def declare_instrument_test(env: Environment, tool: str, attributes: Mapping[str, Any]) -> Nodes:
    """Declare the test of an instrument by the attributes of its rule."""
    return _declare(
        env, tool, _RULES[tool].check({name: value for name, value in attributes.items() if value is not None}, env)
    )


@dataclass
class _Examination:
    """A run of an instrument for a test: its prerequisites, its step, and its output."""

    test: str
    tool: str
    accept: Sequence[str]
    result: Path
    targets: ArtifactTargets | None = None
    step: Step | None = None
    output: list[str] = field(default_factory=list)
    status: int = 0
    cached: bool = True


class _Finding(msgspec.Struct):
    """The part of a finding that a test reads."""

    rule: str
    message: str = ""
    path: str = ""
    line: int = 0
    level: str = "error"

    def __str__(self) -> str:
        position = f" ({self.path}:{self.line})" if self.path else ""
        return f"{self.rule}{position}"


class _Report(msgspec.Struct):
    findings: list[_Finding]


def _declare(env: Environment, tool: str, values: Mapping[str, Any]) -> Nodes:
    workspace, root = workspace_of(env), path_of(values["artifact"])
    output = workspace.output_path(artifact_name(root), workspace.platform(values["platform"]))
    result = output / INSTRUMENTS / values["name"] / _FINDINGS
    run = _Examination(values["name"], tool, values["accept"] or (), result)
    inputs = [node for name in ("artifact", "data") if (node := values.get(name)) is not None]
    return declare_test(env, values, inputs, partial(_declare_run, run), result, partial(_judge, run))


def _declare_run(run: _Examination, env: Environment, values: Mapping[str, Any]) -> Nodes:
    """Declare the run of the instrument and its prerequisites."""
    workspace, root = workspace_of(env), path_of(values["artifact"])
    platform = workspace.platform(values["platform"])
    whole = load_distributed(root) if is_distributed(root) else None
    artifact = whole.as_artifact() if whole else open_artifact(workspace, root, values["platform"])
    output = workspace.output(artifact.name, artifact.root, platform)
    words = [str(root), "--platform", platform.name, "--findings" if run.tool == "speed" else "--json", str(run.result)]
    inputs: list[Path] = list(whole.files) if whole else [artifact.manifest_path]
    nodes: list[Any] = []
    written = [output / "findings"]
    if run.tool != "lint":
        variant = workspace.own_variant(CHECKED)
        targets = run.targets = (
            distributed.distributed_targets(env, whole, platform.name, variant)
            if whole
            else declare_loaded(env, artifact, platform.name, variant=variant)
        )
        assert targets.embedded is not None
        words += ["--build-dir", str(output), "--embedded", targets.embedded.get_abspath()]
        words += ["--binaries", str(targets.binaries_dir), *chip_words(targets)]
        data = path_of(values["data"]) if values.get("data") else None
        words += ["--data", str(data)] if data else []
        if run.tool == "speed":
            words += [
                "--max-time",
                str(values["max_time"]),
                *(["--chip-name", values["chip"]] if values["chip"] else []),
            ]
        data_files = snapshot(artifact, data)
        inputs += [targets.interface, *map(Path, targets.binary_paths), *data_files.inputs.values()]
        nodes += targets.all
        written += [targets.binaries_dir / name for name in NAMES]
    tree = f"{INSTRUMENTS}/{run.test}"
    action = python_tool(
        workspace,
        VERBS[run.tool].module,
        words,
        name=tree,
        inputs=inputs,
        tree=tree,
        good=(0, 1),
        private=tuple(map(str, written)),
    )
    output_dir = workspace.output_dir(output, artifact=artifact.root)
    run.step = Step(output_dir, action, f"[{run.tool}] run", run.test, spawn=partial(_listen, run))
    target = escape(str(run.result.with_name(_EXAMINED)))
    sources = [env.File(escape(str(path))) for path in inputs if path.is_file()]
    node = env.Command(target, [*nodes, *sources], Action(_examine, announce), PYPTO_STEP=run.step, PYPTO_RUN=run)
    env.SideEffect([escape(str(path)) for path in written], node)  # one at a time writes there
    return made_by_us(env, node)


def _listen(run: _Examination, command: list[str], environment: dict[str, str]) -> tuple[int, str]:
    """Run the instrument, and keep its output for the end."""
    run.cached = False
    status, output = run_captured(command, environment)
    run.output[:] = [terminal.plain(output)]
    return status, ""


def _examine(target: Nodes, source: Nodes, env: Environment) -> int:
    run: _Examination = env["PYPTO_RUN"]
    workspace = workspace_of(env)
    assert run.step is not None
    if run.targets is not None and (status := run.targets.ensure(workspace)):
        return status
    run.result.parent.mkdir(parents=True, exist_ok=True)
    run.status = perform(workspace, run.step).status
    return 0


def _judge(run: _Examination) -> Outcome:
    """Return the outcome; accepted findings and notes are not failures."""
    text = "".join(run.output)
    try:
        report = msgspec.json.decode(read_bytes(run.result), type=_Report)
    except (OSError, msgspec.MsgspecError):
        reason = f"'{run.tool}' ended with status {run.status}"
        return Outcome(run.test, "ERROR", reason=reason, text=text, failed=True)
    prediction = next((one.message for one in report.findings if one.rule == "speed/max-time"), "")
    left = [one for one in report.findings if one.level != "note" and not _is_accepted(one, run.accept)]
    idle = [rule for rule in run.accept if not any(fnmatch(one.rule, rule) for one in report.findings)]
    if left:
        reason = f"{len(left)} findings: {', '.join(map(str, left))}" if len(left) > 1 else str(left[0])
        text = text or "".join(f"{one}: {one.message}\n" for one in left)
        return Outcome(
            run.test, "FAIL", reason=reason, text=text, failed=True, cached=run.cached, prediction=prediction
        )
    reason = f"accepts {', '.join(idle)}, and finds none" if idle else ""
    return Outcome(run.test, "PASS", reason=reason, cached=run.cached, prediction=prediction)


def _is_accepted(finding: _Finding, accept: Sequence[str]) -> bool:
    return any(fnmatch(finding.rule, rule) for rule in accept)
