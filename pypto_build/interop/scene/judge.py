"""Lets a scene test's own class judge a run: its ``compare_outputs``, and its ``test_run`` around that.

python -m pypto_build.interop.scene.judge FILE::CLASS::CASE --platform P --data DIR --results DIR --answer FILE

The answer is empty for a pass, else the class's objection to the run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.scenes import ARGUMENTS_NAME, SCALARS_DIR, Arguments, read_arguments
from pypto_build.interop.scene.arguments import Scalar, TaskArgsBuilder, TensorArg
from pypto_build.interop.scene.data import JUDGED_GOLDEN, find_scene, read_number, read_tensor, selector
from pypto_build.interop.scene.faults import is_skip, why

#: The variable that tells the stand-ins where the records of a run are.
OUTPUTS = "PYPTO_SCENE_OUTPUTS"


class _Config:
    """A stand-in for `request.config`."""

    def __init__(self, options: Mapping[str, Any], case: Any) -> None:
        self._options, self._case = options, case

    def getoption(self, name: str, default: Any = None, skip: bool = False) -> Any:
        """Return the value of a runner's flag."""
        return self._options.get(name.lstrip("-").replace("-", "_"), default)

    def cases(self, _scene: type[Any]) -> list[Any]:
        """Return the cases of the current run."""
        return [self._case]


class _Request:
    def __init__(self, config: _Config) -> None:
        self.config = config


class _Worker:
    """The worker that a class's own `test_run` gets through its base class. The run is over; its results are
    compared."""

    def __init__(self, case: Any, data: Path, actual: Path) -> None:
        self._case, self._data, self._actual = case, data, actual

    def run_cases(self, scene: Any) -> None:
        """Compare the outputs of the run, if there are goldens."""
        golden = self._data / JUDGED_GOLDEN
        if not golden.is_dir():
            return
        arguments = read_arguments(self._data / ARGUMENTS_NAME)
        outputs = [name for name in arguments.tensors if (golden / f"{name}.pt").is_file()]
        actual = _arguments(arguments, self._data / "in", self._actual)
        expected = _arguments(arguments, self._data / "in", golden)
        scene.compare_outputs(actual, expected, outputs, self._case.get("params", {}))


def _arguments(arguments: Arguments, before: Path, after: Path) -> TaskArgsBuilder:
    """Return the arguments from ``before`` the run, with those in ``after`` replaced."""
    args = TaskArgsBuilder()
    for name in arguments.tensors:
        file = after / f"{name}.pt"
        args._add(TensorArg(name, read_tensor(file if file.is_file() else before / f"{name}.pt")))
    scalars = before.with_name(SCALARS_DIR)  # for a case of several chips: there the driver has scalars as numbers
    for name in arguments.scalars:
        args._add(Scalar(name, read_number((scalars if scalars.is_dir() else before) / f"{name}.pt")))
    return args


def judge(file: Path, class_name: str, case_name: str, data: Path, results: Path, options: Mapping[str, Any]) -> str:
    """Return the class's objection to a run; empty for a pass. Raises `ArtifactError`."""
    scene, case = find_scene(file, class_name, case_name)
    worker, request = _Worker(case, data, results / "actual"), _Request(_Config(options, case))
    with tempfile.TemporaryDirectory() as outputs:
        os.environ[OUTPUTS] = outputs
        if (results / "dfx_outputs").is_dir():
            label = "".join(c if c.isalnum() or c in "._-" else "_" for c in f"{class_name}_{case_name}")
            Path(outputs, f"{label}_{time.strftime('%Y%m%d_%H%M%S')}").symlink_to(results / "dfx_outputs")
        try:
            scene.test_run(options.get("platform"), worker, request)
        except AssertionError as error:
            text = " ".join(str(error).split())
            return f"{class_name}: {text}" if text else why(error, file)
        except Exception as error:
            return why(error, file)
        except BaseException as error:  # pytest's own are no exceptions
            if not is_skip(error):
                raise
    return ""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m pypto_build.interop.scene.judge", allow_abbrev=False)
    add = parser.add_argument
    add("case", type=selector, metavar="FILE::CLASS::CASE", help="a case of a scene test")
    add("--data", type=Path, required=True, metavar="DIR", help="its data")
    add("--results", type=Path, required=True, metavar="DIR", help="what the run left")
    add("--answer", type=Path, required=True, metavar="FILE", help="where the judgment is written")
    add("--options", type=json.loads, default={}, metavar="JSON", help="flags of the run, for the class to ask for")
    options = parser.parse_args(argv)
    file, class_name, case = options.case
    try:
        answer = judge(file, class_name, case, options.data, options.results, options.options)
    except ArtifactError as error:
        answer = str(error)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        answer = why(error, file)
    options.answer.write_text(answer, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
