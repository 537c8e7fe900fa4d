"""Runs one case of a scene test of several chips.

python -m pypto_build.interop.scene.node_case FILE::CLASS::CASE -p PLATFORM [--rounds N] [--skip-golden] [--seed N]

Exit status: 0 it passed, 1 it failed, 5 it needs what is not here; the last line that is printed says why.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.scenes import NODE_LEVEL
from pypto_build.interop.scene.case import CallableNamespace
from pypto_build.interop.scene.data import SKIPPED, find_scene, golden_threads, seed_all, selector
from pypto_build.interop.scene.faults import NeedsSimpler, is_skip, why
from pypto_build.interop.scene.node import NodeWorker
from pypto_build.interop.scene.program import config_of, program_of


def run_case(scene: Any, case: Mapping[str, Any], platform: str, rounds: int, golden: bool, seed: int) -> None:
    """Run a case, and compare after every round. Raises whatever the file's code raises, RuntimeError for a fault."""
    if type(scene).test_run is not _base_of(scene).test_run:
        raise NeedsSimpler("a worker that its class drives itself")
    params, config = case.get("params", {}), case.get("config", {})
    seed_all(seed)
    args = scene.generate_args(params)
    expected = args.clone() if golden else None
    if expected is not None:
        with golden_threads():
            scene.compute_golden(expected, params)
    worker = NodeWorker(NODE_LEVEL, platform, scene._st_runtime, range(int(config.get("device_count", 1))))
    callables = CallableNamespace(_register(scene, worker))
    before = args.clone() if rounds > 1 else None
    orchestration = scene.CALLABLE["orchestration"]
    for number in range(rounds):
        if number and before is not None:
            for name in args.tensor_names():
                getattr(args, name).copy_(getattr(before, name))
        worker.run(lambda orch, _, own: orchestration(orch, callables, args, own), None, config_of(config))
        if expected is not None:
            scene.compare_outputs(args, expected, args.tensor_names(), params)


def _base_of(scene: Any) -> Any:
    return next(base for base in type(scene).__mro__ if base.__name__ == "SceneTestCase")


def _register(scene: Any, worker: NodeWorker) -> dict[str, Any]:
    """What the orchestration may call, by name, with the signature of each chip program."""
    import inspect

    place, found = Path(inspect.getfile(type(scene))).resolve().parent, dict[str, Any]()
    for entry in scene.CALLABLE["callables"]:
        name = entry["name"]
        if "callable" in entry:
            found[name] = worker.register(entry["callable"])
            continue
        found[name] = worker.register(program_of(entry, place, worker.platform, worker.runtime), name)
        found[f"{name}_sig"] = list(entry["orchestration"].get("signature", []))
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m pypto_build.interop.scene.node_case", allow_abbrev=False)
    add = parser.add_argument
    add("case", type=selector, metavar="FILE::CLASS::CASE", help="a case of a scene test")
    add("-p", "--platform", required=True, help="what it runs on")
    add("--rounds", type=int, default=1, metavar="N", help="how often to run it")
    add("--skip-golden", action="store_true", help="run without comparing")
    add("--seed", type=int, default=0, metavar="N", help="seed of random data")
    given = parser.parse_args(argv)
    file, class_name, name = given.case
    try:
        scene, case = find_scene(file, class_name, name)
        skip = given.skip_golden or bool(case.get("skip_golden", scene.SKIP_GOLDEN))
        run_case(scene, case, given.platform, given.rounds, not skip, given.seed)
    except ArtifactError as error:
        print(f"error: {error}", flush=True)
        return error.exit_status
    except AssertionError as error:
        print(f"{class_name}: {' '.join(str(error).split()) or why(error, file)}", flush=True)
        return 1
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever the user's code raises
        print(why(error, file), flush=True)
        return SKIPPED if is_skip(error) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
