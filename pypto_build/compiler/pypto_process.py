"""Runs a program of PyPTO itself, in the interpreter that has PyPTO, and records what it compiles.

    PYTHON pypto_process.py [--dump-passes] PROGRAM BUILD_DIR REPORT [ARGUMENT …]

This file is run by its path and imports nothing of pypto-build, since the interpreter need not have it. Nothing is
executed on a device or a simulator. Where PyPTO would run a compiled program, the arguments are saved as `data/in`. The
tensor that the program then compares an output with is saved as `data/out`. With --dump-passes, every compilation dumps
its passes. REPORT receives the directories and the program's sources as JSON. Exit status 0, 1 when the program fails
before anything is compiled, 3 when PyPTO cannot be imported.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import os
import runpy
import sys
import traceback
from pathlib import Path
from typing import Any


class Recorder:
    """Record of the compiled programs: directories in order, and the tensors with their outputs."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.directories: list[str] = []
        self.outputs: list[tuple[Path, str, Any]] = []

    def execute(self, work_dir: Any, args: Any = (), *_: Any, **__: Any) -> None:
        """Stand in for the execution of a compiled program: save its arguments as the snapshot's inputs."""
        root = Path(work_dir)
        self.directories.append(str(root))
        try:
            params = json.loads((root / "compiled_meta.json").read_text(encoding="utf-8"))["params"]
        except (OSError, ValueError, KeyError):
            return
        for param, value in zip(params, args):  # noqa: B905 - the interpreter may be older than strict=
            tensor = isinstance(value, self.torch.Tensor)
            if param["direction"] != "Out":
                number = getattr(value, "value", value)
                self.save(root / "data/in" / f"{param['name']}.pt", value if tensor else self.torch.tensor(number))
            if tensor and param["direction"] != "In":
                self.outputs.append((root, param["name"], value))

    def compare(self, actual: Any, expected: Any, *_: Any, **__: Any) -> bool:
        """Stand in for the comparison of an output with its expected value."""
        for one, other in ((actual, expected), (expected, actual)):
            for root, name, value in reversed(self.outputs):
                same = isinstance(one, self.torch.Tensor) and one.data_ptr() == value.data_ptr()
                if same and isinstance(other, self.torch.Tensor) and other.shape == value.shape:
                    self.save(root / "data/out" / f"{name}.pt", other.to(value.dtype))
                    return True
        return True

    def save(self, path: Path, tensor: Any) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.torch.save(tensor.detach().clone().contiguous(), path)


def dumping(function: Any) -> Any:
    """Return the function with `dump_passes` set."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.arguments["dump_passes"] = True
        return function(*bound.args, **bound.kwargs)

    return call if "dump_passes" in signature.parameters else function


def dump_passes() -> None:
    """Make PyPTO dump its passes: by the run configuration, or by the compile call if it has none."""
    config = getattr(sys.modules["pypto.runtime"], "RunConfig", None)
    if config is not None:
        config.__init__ = dumping(config.__init__)
    try:
        compiled = importlib.import_module("pypto.ir").compile
    except (ImportError, AttributeError):
        return
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "pypto":
            for key, value in list(vars(module).items()):
                if value is compiled:
                    setattr(module, key, dumping(compiled))


def main(argv: list[str]) -> int:
    dumps = argv[0] == "--dump-passes"
    program, build_dir, report, *arguments = argv[dumps:]
    os.environ["PYPTO_PROG_BUILD_DIR"] = build_dir
    sys.path[0] = str(Path(program).resolve().parent)
    try:
        runtime = [importlib.import_module(name) for name in ("pypto.runtime", "pypto.runtime.runner")]
        torch: Any = importlib.import_module("torch")
    except ImportError as error:
        print(f"{sys.executable}: {error}", file=sys.stderr)
        return 3
    recorder = Recorder(torch)
    if dumps:
        dump_passes()
    for module in runtime:
        module.execute_compiled = recorder.execute  # type: ignore[attr-defined]
    torch.allclose = torch.testing.assert_close = recorder.compare
    before = set(sys.modules)
    sys.argv = [program, *arguments]
    stopped = ""
    try:
        runpy.run_path(program, run_name="__main__")
    except SystemExit as end:
        stopped = str(end.code) if end.code not in (None, 0) else ""
    except BaseException as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == program]
        line = f":{frames[-1].lineno}" if frames else ""
        text = str(error).strip().splitlines()
        stopped = f"{program}{line}: {type(error).__name__}: {text[0] if text else ''}".rstrip(": ")
    directories = recorder.directories or [str(p.parent) for p in sorted(Path(build_dir).glob("*/orchestration"))]
    root = Path(program).resolve().parent
    files = [getattr(sys.modules[name], "__file__", None) for name in set(sys.modules) - before]
    sources = sorted(f for f in files if f and Path(f).resolve().is_relative_to(root) and "site-packages" not in f)
    document = {"directories": list(dict.fromkeys(directories)), "sources": sources, "stopped": stopped}
    Path(report).write_text(json.dumps(document), encoding="utf-8")
    return 0 if directories else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
