"""Hooks PyPTO in a script that `pypto-build wrap` runs: sets options, and makes PyPTO keep snapshots.

Python imports this module before the script. It cannot import other modules of this package.

``PYPTO_BUILD_WRAP`` is a JSON object:

- ``report``: a file that gets a line of JSON for each event.
- ``records``: levels, each with PyPTO's names of the record, the newest first.
- ``runtime_dir``, ``golden_data``, ``compile_only``: the flags of these names.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import inspect
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_JOB: dict[str, Any] = json.loads(os.environ.get("PYPTO_BUILD_WRAP", "{}"))
_BEFORE = dict(os.environ)
_SAVED: set[str] = set()
_in_harness = False


def report(**what: Any) -> None:
    """Write an event for `pypto-build wrap`."""
    with open(_JOB["report"], "a", encoding="utf-8") as file:
        file.write(json.dumps(what) + "\n")


def report_run(directory: Any, platform: Any, snapshot: bool) -> None:
    """Report an artifact that was run, and the options that the script itself set in the environment."""
    own = {name: value for name, value in os.environ.items() if name.startswith("PTO2_") and value != _BEFORE.get(name)}
    report(ran=str(directory), platform=platform, snapshot=snapshot, environment=own)


def records(fields: set[str]) -> dict[str, Any]:
    """Return the requested options, under those of their names that are in ``fields``."""
    chosen = {}
    for level, names in _JOB["records"]:
        name = next((name for name in names if name in fields), None)
        if name is None:
            report(missing=names[0])
        else:
            chosen[name] = level
    return chosen


def patch_runner(module: Any) -> None:
    """Patch PyPTO's own runs: the configuration, and `execute_compiled`, through which every single-chip run goes."""
    execute = module.execute_compiled

    @functools.wraps(execute)
    def execute_compiled(work_dir: Any, args: Any, **more: Any) -> Any:
        directory = replay_dir(Path(work_dir))
        if _JOB["records"]:
            options = more.get("dfx") or module._DfxOpts()
            enabled = records({field.name for field in dataclasses.fields(options)})
            more["dfx"] = dataclasses.replace(options, **enabled)
        params = None if _in_harness else parameters(directory)
        fresh = bool(params) and save_inputs(directory, params, args)
        result = execute(directory, args, **more)
        if fresh:
            save(directory / "data" / "actual", params, args, ("Out", "InOut"))
        report_run(directory, more.get("platform"), fresh)
        return result

    module.execute_compiled = execute_compiled
    configure(module.RunConfig)


def configure(config: Any) -> None:
    """Set the requested options in every configuration of a run, in place of the script's values."""
    original = config.__init__

    @functools.wraps(original)
    def init(self: Any, *words: Any, **more: Any) -> None:
        fields = {field.name for field in dataclasses.fields(config)}
        more |= records(fields) if _JOB["records"] else {}
        more |= {"save_kernels": True} if "save_kernels" in fields else {}
        original(self, *words, **more)

    config.__init__ = init


def patch_harness(module: Any) -> None:
    """Patch pypto-lib's `golden.run` and `golden.run_jit`."""
    for name in ("run", "run_jit"):
        if hasattr(module, name):
            setattr(module, name, harnessed(name, getattr(module, name)))


def harnessed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of the harness that also keeps a snapshot, or replays one."""
    parameters = inspect.signature(function).parameters

    @functools.wraps(function)
    def run(*words: Any, **more: Any) -> Any:
        global _in_harness
        settings = {"save_data": not _JOB["golden_data"], **{key: _JOB[key] for key in ("runtime_dir", "golden_data")}}
        settings["compile_only"] = _JOB["compile_only"]
        for key, value in settings.items():
            if value and key in parameters:
                more[key] = value
            elif value:
                report(missing=f"golden.{name}({key}=)")
        _in_harness = True
        try:
            result = function(*words, **more)
        finally:
            _in_harness = False
        if getattr(result, "work_dir", None):
            report_run(result.work_dir, None, False)
        return result

    return run


def replay_dir(work_dir: Path) -> Path:
    """Return the directory to run: that of --runtime-dir, if it was compiled from the same function."""
    chosen = _JOB["runtime_dir"]
    if not chosen or _in_harness:
        return work_dir
    directory, name = Path(chosen), re.sub(r"(_\d{8}_\d{6})(_\w+)?$", "", work_dir.name)
    if re.sub(r"(_\d{8}_\d{6})(_\w+)?$", "", directory.name) != name:
        report(other=name)
        return work_dir
    sources = [path for part in ("kernels", "orchestration") for path in (directory / part).rglob("*.cpp")]
    if any(is_stale(source) for source in sources):
        from pypto.runtime.debug import invalidate_binary_cache  # type: ignore[import-not-found, unused-ignore]

        invalidate_binary_cache(directory)
    return directory


def is_stale(source: Path) -> bool:
    """Return whether a source has no binary, or only older ones; PyPTO itself does not check that."""
    binaries = [path for suffix in (".so", ".o") if (path := source.with_suffix(suffix)).exists()]
    return not binaries or any(path.stat().st_mtime_ns < source.stat().st_mtime_ns for path in binaries)


def parameters(directory: Path) -> Any:
    """Return the parameters in ``compiled_meta.json``; None if it has none."""
    try:
        return json.loads((directory / "compiled_meta.json").read_bytes())["params"]
    except (OSError, ValueError, KeyError):
        report(unnamed=str(directory))
        return None


def save_inputs(directory: Path, params: Any, args: Any) -> bool:
    """Write ``data/in``, unless there is a snapshot already; return whether it was written."""
    if str(directory) in _SAVED or (directory / "data" / "in").exists() or len(params) != len(args):
        return False
    _SAVED.add(str(directory))
    save(directory / "data" / "in", params, args, ("In", "InOut"))
    return True


def save(directory: Path, params: Any, args: Any, directions: tuple[str, ...]) -> None:
    """Write the tensors of these directions, and the scalars among them, as one file each."""
    import torch

    directory.mkdir(parents=True, exist_ok=True)
    for param, arg in zip(params, args):  # noqa: B905 - of the same length
        if param["direction"] not in directions:
            continue
        if isinstance(arg, torch.Tensor):
            value = arg.detach().cpu().clone().contiguous()
        elif hasattr(arg, "value"):
            names = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "index": "int64"}
            dtype = getattr(torch, names.get(param["dtype"], param["dtype"]), None)
            value = torch.tensor(arg.value, dtype=dtype)
        else:
            continue  # a tensor on a device
        torch.save(value, directory / f"{param['name']}.pt")


_PATCHES = {"pypto.runtime.runner": patch_runner, "golden.runner": patch_harness}


class Patches:
    """An import hook: a module in ``_PATCHES`` is patched as soon as it has been executed."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the module's own spec, with its patch added."""
        if name not in _PATCHES or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)  # type: ignore[arg-type, unused-ignore]
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(0, self)  # type: ignore[arg-type, unused-ignore]
        loader: Any = spec.loader if spec else None
        if loader is not None:
            execute = loader.exec_module

            def exec_module(module: Any) -> None:
                execute(module)
                _PATCHES[name](module)

            loader.exec_module = exec_module
        return spec


def go_on() -> None:
    """Import the environment's own ``sitecustomize``, which this one hides."""
    here = os.path.dirname(os.path.abspath(__file__))
    places, ours = list(sys.path), sys.modules.pop("sitecustomize", None)
    sys.path[:] = [path for path in places if os.path.abspath(path) != here]
    try:
        import sitecustomize  # type: ignore[import-not-found, unused-ignore]  # noqa: F401
    except ImportError:
        if ours is not None:
            sys.modules["sitecustomize"] = ours


if __name__ == "sitecustomize":
    if _JOB and "pypto.runtime._dep_gen_capture" not in sys.orig_argv:
        sys.meta_path.insert(0, Patches())  # type: ignore[arg-type, unused-ignore]
        report(python=sys.executable)
    go_on()
