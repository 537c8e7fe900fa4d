"""``ReplayTest``: runs an artifact on fixed data and compares it with its golden."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from SCons.Script import BUILD_TARGETS, COMMAND_LINE_TARGETS

from pypto_build.artifact import ArtifactError, artifact_name, is_distributed
from pypto_build.artifact.interface import Param
from pypto_build.artifact.snapshot import REFERENCE
from pypto_build.facts.run_options import ALL_OUTPUTS, RULES_ERROR, is_tolerance
from pypto_build.rules.artifact import ArtifactTargets, declare_loaded
from pypto_build.rules.compile_commands import update_compile_commands
from pypto_build.rules.completion import open_artifact
from pypto_build.rules.machinery.attributes import PLATFORM, Attribute, Kind, Rule, RuleError, path_attribute
from pypto_build.rules.machinery.inputs import path_of
from pypto_build.rules.machinery.scons_types import Environment, Node, Nodes
from pypto_build.rules.machinery.workspace import Workspace, workspace_of
from pypto_build.rules.replay import declare_replay, results_of
from pypto_build.rules.tests import declare_test
from pypto_build.rules.variants import WEAK

_NUMBER = (int, float)
# Attributes whose files have to be there before a test is declared.
_INPUTS = ("artifact", "data", "golden", "compare")

REPLAY_TEST = Rule(
    "ReplayTest",
    "Replays an artifact and compares its outputs with the golden; part of `scons test`, and a target by its name.",
    (
        Attribute("name", (str,), "the name of the target", required=True),
        path_attribute("artifact", Kind.DIRECTORY, "the artifact's directory", required=True),
        PLATFORM,
        path_attribute(
            "data",
            Kind.DIRECTORY,
            "another directory with in/ and out/ instead of the artifact's data/",
            words=(REFERENCE,),
        ),
        path_attribute(
            "golden",
            Kind.DIRECTORY,
            "a directory with a .pt file for each output, or with out/, in place of the data's out/",
        ),
        Attribute(
            "signature", (list, tuple, dict), "directions of the tensor parameters, such as ['IN', 'OUT'], or by name"
        ),
        Attribute("rtol", _NUMBER, "relative tolerance (default: RTOL=, else what the artifact says, else 1e-5)"),
        Attribute("atol", _NUMBER, "absolute tolerance (default: ATOL=, else what the artifact says, else 1e-5)"),
        Attribute("memory", (str,), "'weak': stores as late as the device allows (default: MEMORY=)"),
        Attribute("world", (int,), "ranks of a distributed program (default: WORLD=, else those it was compiled for)"),
        Attribute("comparators", (dict,), "output name to comparator, such as {'y': 'ratio_allclose(atol=1e-3)'}"),
        path_attribute("compare", Kind.FILE, "a Python file whose function `compare` judges the other outputs"),
        Attribute(
            "checks",
            (list, tuple),
            "what else fails it: 'rules' of the device; 'lint', 'hazards', which are tests NAME.lint, NAME.hazards",
        ),
        Attribute(
            "max_time", (str,), "fails NAME.speed if `scons speed` predicts more for certain, such as '180us', '1.5ms'"
        ),
        Attribute("chip", (str,), "the chip of max_time (default: CHIP of `scons speed`)"),
        Attribute("tags", (list, tuple), "names that TAGS= selects by"),
    ),
)
_UNITS = {"us": 1.0, "ms": 1e3, "s": 1e6}
_RULES, _INSTRUMENTS = "rules", ("lint", "hazards")


def declare_replay_test(env: Environment, **attributes: Any) -> Nodes:
    """Implement the rule; return the node of the test's verdict."""
    values = REPLAY_TEST.check(attributes, env)
    workspace = workspace_of(env)
    inputs = [node for name in _INPUTS if (node := values[name]) and node != REFERENCE]
    if workspace.options["TEST"] == values["name"] and "triage" in map(str, COMMAND_LINE_TARGETS):
        from pypto_build.rules.triage_of_test import triage_test

        triage_test(env, values["name"], inputs, lambda: _declare(env, values))
    _declare_checks(env, values)
    return declare_test(env, values, inputs, _declare, _results(workspace, values))


def _declare_checks(env: Environment, values: Mapping[str, Any]) -> None:
    """Declare the test's checks by instruments; the test's name as a target includes them."""
    for check in values["checks"] or ():
        if check == _RULES:
            continue
        if check not in _INSTRUMENTS:
            raise RuleError(
                f"ReplayTest: checks: there is no check {check!r}; use some of {', '.join((_RULES, *_INSTRUMENTS))}"
            )
        from pypto_build.rules.instrument_test import declare_instrument_test

        name = f"{values['name']}.{check}"
        data = {"data": values["data"]} if check == "hazards" and values["data"] != REFERENCE else {}
        taken = {key: values[key] for key in ("artifact", "platform", "tags")}
        declare_instrument_test(env, check, {**taken, **data, "name": name})
        if values["name"] in map(str, COMMAND_LINE_TARGETS):
            BUILD_TARGETS.append(name)

    if values["chip"] and not values["max_time"]:
        raise RuleError(
            "ReplayTest: chip= has an effect only together with max_time=; add max_time= or leave out chip="
        )
    if values["max_time"]:
        _declare_limit(env, values)


def _declare_limit(env: Environment, values: Mapping[str, Any]) -> None:
    """Declare the test of the predicted time."""
    from pypto_build.rules.instrument_test import declare_instrument_test

    text = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,6})?) ?(us|ms|s)", values["max_time"])
    if text is None:
        raise RuleError(
            f"ReplayTest: max_time={values['max_time']!r} is not a time; write one such as '180us' or '1.5ms'"
        )
    taken = {key: values[key] for key in ("artifact", "platform", "tags", "chip")}
    taken |= {"data": values["data"]} if values["data"] != REFERENCE else {}
    name = f"{values['name']}.speed"
    declare_instrument_test(env, "speed", {**taken, "name": name, "max_time": float(text[1]) * _UNITS[text[2]]})
    if values["name"] in map(str, COMMAND_LINE_TARGETS):
        BUILD_TARGETS.append(name)


def _results(workspace: Workspace, values: Mapping[str, Any]) -> Path | None:
    """Return the verdict of a test; None for contradictory options, which the test reports when it runs."""
    platform = workspace.platform(values["platform"])
    output = workspace.output_path(artifact_name(path_of(values["artifact"])), platform)
    try:
        variant = WEAK.directory if values["memory"] else workspace.variant(platform)
        data, golden = _data(workspace, values["data"]), _golden(values)
        results = results_of(workspace, output, platform, variant, data, _chosen(values), _comparators(values), golden)
    except ArtifactError:
        return None
    return results / "verdict.json"


def _data(workspace: Workspace, data: Node | str | None) -> str | None:
    """Return the data of a test, in the form that names its results."""
    return data if data is None or isinstance(data, str) else workspace.short_of_top(path_of(data))


def _golden(values: Mapping[str, Any]) -> Path | None:
    return path_of(values["golden"]) if values["golden"] else None


def _comparators(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the comparators by the names of outputs."""
    for name, comparator in (values["comparators"] or {}).items():
        if not isinstance(comparator, str) or comparator.endswith(".py"):
            raise RuleError(
                f"ReplayTest: comparators: {name}: {comparator} is not the name of a comparator; name a "
                "file of comparators with compare="
            )
    rest = {ALL_OUTPUTS: str(path_of(values["compare"]))} if values["compare"] else {}
    return {**(values["comparators"] or {}), **rest}


def _chosen(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the run options that a test sets."""
    chosen: dict[str, Any] = {"WORLD": values["world"]} if values["world"] is not None else {}
    chosen |= {"MEMORY": values["memory"]} if values["memory"] else {}
    chosen |= {"RULES": RULES_ERROR} if _RULES in (values["checks"] or ()) else {}
    return chosen | _tolerances(values)


def _declare(env: Environment, values: Mapping[str, Any]) -> Nodes:
    """Return the target: the replay."""
    workspace = workspace_of(env)
    root = path_of(values["artifact"])
    weak = values["memory"]
    if weak not in (None, "weak"):
        raise ArtifactError(f"memory={weak!r}", "is not a memory model", "write memory='weak' or leave it out")
    variant = WEAK.directory if weak else None
    if is_distributed(root):
        from pypto_build.rules.distributed import declare_whole

        targets = declare_whole(env, root, values["platform"], variant)
    elif values["world"] is not None:
        raise ArtifactError(f"world={values['world']}", f"{root.name} is a program for one chip", "leave out world=")
    else:
        artifact = open_artifact(workspace, root, values["platform"])
        targets = declare_loaded(env, artifact, values["platform"], variant)
    for part in targets.parts or (targets,):
        update_compile_commands(workspace, part)
    golden = _golden(values)
    if golden or values["signature"]:
        from pypto_build.rules.contracts import check_contract

        check_contract(_params(targets), values["name"], values["signature"], golden)
    return declare_replay(
        env,
        targets,
        _data(workspace, values["data"]),
        _chosen(values),
        _comparators(values),
        golden=golden,
        alone=False,
        of_a_test=True,
    )


def _tolerances(values: Mapping[str, Any]) -> dict[str, float]:
    """Return the tolerances that a test sets."""
    tolerances = {key: values[key.lower()] for key in ("RTOL", "ATOL") if values[key.lower()] is not None}
    for key, value in tolerances.items():
        if not is_tolerance(value):
            raise RuleError(
                f"ReplayTest: {key.lower()}={value!r} is not a tolerance; write a finite number of 0 or more"
            )
    return {key: float(value) for key, value in tolerances.items()}


def _params(targets: ArtifactTargets) -> Sequence[Param]:
    """Return the parameters of an artifact of either kind."""
    if targets.parts:
        from pypto_build.artifact.distributed import interface_of, load_distributed

        return interface_of(load_distributed(targets.artifact.root)).params
    from pypto_build.artifact.interface import sign

    return sign(targets.artifact).interface.params
