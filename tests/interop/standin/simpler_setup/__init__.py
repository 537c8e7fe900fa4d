"""Stand-in for simpler_setup: the interface that scene tests use, and a command line that runs them."""

import argparse
import sys
from pathlib import Path
from typing import Any, NamedTuple

import torch
from simpler import VINTAGE
from simpler.task_interface import ArgDirection

_CASE_CONFIG = {"aicpu_thread_num", "runtime_env", "device_count", "num_sub_workers"}
_CASE_CONFIG |= {"block_dim"} if VINTAGE < "2026-08" else set()


class _TensorSpec(NamedTuple):
    name: str
    value: torch.Tensor


class Scalar(NamedTuple):
    name: str
    value: Any


if VINTAGE >= "2026-08":
    TensorArg = _TensorSpec
else:
    Tensor = _TensorSpec


class TaskArgsBuilder:
    def __init__(self, *specs):
        kinds = [isinstance(spec, Scalar) for spec in specs]
        assert kinds == sorted(kinds), "tensors precede scalars"
        self._specs = {spec.name: spec.value for spec in specs}

    def __getattr__(self, name):
        try:
            return self.__dict__["_specs"][name]
        except KeyError:
            raise AttributeError(name) from None

    def clone(self):
        made = TaskArgsBuilder()
        made._specs = {n: v.clone() if isinstance(v, torch.Tensor) else v for n, v in self._specs.items()}
        return made

    def tensors(self):
        return {name: value for name, value in self._specs.items() if isinstance(value, torch.Tensor)}


def scene_test(level, runtime):
    def decorate(cls):
        cls._st_level, cls._st_runtime = level, runtime
        for entry in (cls.CALLABLE["orchestration"], *cls.CALLABLE["incores"]):
            assert Path(entry["source"]).is_file(), entry
        for case in cls.CASES:
            unknown = set(case["config"]) - _CASE_CONFIG
            if unknown:
                raise ValueError(f"unknown config keys {unknown}")
        return cls

    return decorate


class SceneTestCase:
    CASES = ()
    RTOL = ATOL = 1e-5
    SKIP_GOLDEN = False
    RUNTIME_ENV = ()

    def test_run(self):
        """Run what pytest runs with the conftest of simpler."""

    @staticmethod
    def run_module(name):
        """Every case with the outputs its golden says, or those of --corrupt OUTPUT."""
        flags = argparse.ArgumentParser()
        flags.add_argument("-p", "--platform", required=True)
        flags.add_argument("--case", action="append")
        flags.add_argument("-d", "--device", default="0")
        flags.add_argument("--corrupt")
        flags.add_argument("--rounds")
        flags.add_argument("--runtime")
        flags.add_argument("--dump-args")
        flags.add_argument("--enable-chip-swimlane")
        flags.add_argument("--enable-pmu")
        flags.add_argument("--enable-dep-gen", action="store_true")
        options = flags.parse_args()
        print("given", *sys.argv[1:], file=sys.stderr)
        failed = False
        for cls in vars(sys.modules[name]).copy().values():
            if isinstance(cls, type) and issubclass(cls, SceneTestCase) and cls is not SceneTestCase:
                for case in cls.CASES:
                    chosen = not options.case or f"{cls.__name__}::{case['name']}" in options.case
                    if options.platform in case["platforms"] and chosen:
                        failed |= not _run(cls(), case, options.corrupt)
        sys.exit(int(failed))


def _run(test, case, corrupt):
    args = test.generate_args(case["params"])
    golden = args.clone()
    if not case.get("skip_golden"):
        test.compute_golden(golden, case["params"])
    signature = test.CALLABLE["orchestration"]["signature"]
    written = {ArgDirection.OUT, ArgDirection.INOUT}
    outputs = [name for name, direction in zip(args.tensors(), signature, strict=True) if direction in written]
    for name in outputs:
        getattr(args, name).copy_(getattr(golden, name))
        if name == corrupt:
            getattr(args, name).view(-1)[0] += 1
    label = f"{type(test).__name__}::{case['name']}"
    try:
        if hasattr(test, "compare_outputs") and VINTAGE >= "2026-08":
            test.compare_outputs(args, golden, outputs, case["params"])
        elif not case.get("skip_golden"):
            for name in outputs:
                same = torch.allclose(getattr(args, name), getattr(golden, name), rtol=test.RTOL, atol=test.ATOL)
                assert same, f"Golden mismatch on '{name}'"
    except AssertionError as error:
        print(f"  {label} FAILED: {error}")
        return False
    print(f"  {label} PASSED " + " ".join(f"{name}={getattr(args, name).sum().item():g}" for name in outputs))
    return True
