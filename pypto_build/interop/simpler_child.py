"""Runs one artifact through simpler's Worker, in simpler's own Python, where nothing of ours can be imported.

usage: simpler_child.py JOB.json COMMANDS RESULTS

COMMANDS and RESULTS are file descriptors: a byte R runs a round, a line of JSON answers it. This works with every
generation of the Worker, as names that differ between them are looked up.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    sys.path.pop(0)  # this directory, whose files would hide modules of the same name

import ctypes
import inspect
import json
import logging
import mmap
import os
import time
from typing import Any

_NO_NEW_PRIVILEGES = 38  # option of prctl
_DROPPED = ("block_dim",)  # fields that newer generations set themselves


class Unfit(Exception):
    """This simpler cannot do what the job asks for: (kind, message)."""


def main(job_path: str, commands: int, results: int, session_of: Any = None) -> None:
    libc = ctypes.CDLL(None)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)  # the server process rejects clients without privileges
    with open(job_path, encoding="utf-8") as file:
        job = json.load(file)
    try:
        session = (session_of or Session)(job)
    except Unfit as error:
        reply(results, {"kind": error.args[0], "fault": error.args[1]})
        return
    except (AttributeError, TypeError) as error:
        reply(results, {"kind": "usage_error", "fault": unknown_interface(error)})
        return
    except Exception as error:
        reply(results, {"kind": "device", "fault": describe(error)})
        return
    try:
        while os.read(commands, 1) == b"R":
            start = time.perf_counter()
            try:
                session.run()
            except (AttributeError, TypeError) as error:
                reply(results, {"kind": "usage_error", "fault": unknown_interface(error)})
                break
            except Exception as error:
                reply(results, {"kind": "runtime_error", "fault": describe(error)})
                break
            run_s = time.perf_counter() - start
            sys.stdout.flush()
            libc.fflush(None)  # output of kernels
            reply(results, {"run_s": run_s})
    finally:
        session.close()


class Session:
    """A worker with the artifact registered, and its arguments."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.import_simpler(job)
        self.tensors = [self.tensor(row) for row in job["tensors"]]
        self.directions = [row["direction"] for row in job["tensors"]]
        self.scalars = job["scalars"]
        self.config = self.call_config(job["config"], job["output_prefix"])
        chip = self.callable(job, self.directions)
        self.worker = self.new_worker(
            level=2, platform=job["platform"], runtime=job["runtime"], device_id=job["device"]
        )
        registers = hasattr(self.worker, "register")
        self.handle = self.worker.register(chip) if registers else chip
        self.worker.init()

    def import_simpler(self, job: dict[str, Any]) -> None:
        """Import simpler's packages, and torch."""
        try:
            import torch
            from simpler import task_interface  # type: ignore[import-not-found, unused-ignore]
            from simpler.worker import Worker  # type: ignore[import-not-found, unused-ignore]
        except ImportError as error:
            raise Unfit("usage_error", f"simpler cannot be imported by {sys.executable}: {error}") from None
        if job["log_level"] is not None:
            logging.getLogger("simpler").setLevel(job["log_level"])
        self.torch: Any = torch
        self.api: Any = task_interface
        self.new_worker: Any = Worker

    def tensor(self, row: dict[str, Any]) -> Any:
        """Return the memory of a tensor, shared with the parent process."""
        dtype = getattr(self.torch, row["dtype"])
        if 0 in row["shape"]:
            return self.torch.empty(row["shape"], dtype=dtype)
        with open(row["file"], "r+b") as file:
            memory = mmap.mmap(file.fileno(), row["nbytes"])
        return self.torch.frombuffer(memory, dtype=self.torch.uint8).view(dtype).reshape(row["shape"] or [1])

    def callable(self, program: dict[str, Any], signature: list[str]) -> Any:
        """Return a chip program in simpler's form."""
        directions = self.api.ArgDirection
        children = []
        for kernel in program["kernels"]:
            binary = self.api.CoreCallable.build(
                signature=[directions[name] for name in kernel["signature"] or ()], binary=read(kernel["file"])
            )
            children.append((kernel["func_id"], binary))
        entry = program["orchestration"]
        build = self.api.ChipCallable.build
        config_name = {"config_name": entry["config_name"]} if takes(build, "config_name") else {}
        return build(
            signature=[directions[name] for name in signature],
            func_name=entry["function_name"],
            binary=read(entry["file"]),
            children=children,
            **config_name,
        )

    def call_config(self, fields: list[tuple[list[str], Any]], output_prefix: str) -> Any:
        """Return simpler's configuration with these field values. Generations name fields differently; the newest name
        comes first."""
        config_class = getattr(self.api, "CallConfig", None) or self.api.ChipCallConfig
        config = config_class()
        if output_prefix and hasattr(config, "output_prefix"):
            config.output_prefix = output_prefix
        for names, value in fields:
            name = next((name for name in names if hasattr(config, name)), None)
            if name is not None:
                try:
                    setattr(config, name, value)
                except TypeError:  # a level that used to be a switch
                    setattr(config, name, bool(value))
            elif names[0] not in _DROPPED:
                raise Unfit("usage_error", f"this version of simpler has no option {names[0]}")
        return config

    def arguments(self) -> Any:
        """Return the task arguments: tagged and created by the worker since August 2026, plain before."""
        try:
            from simpler_setup.torch_interop import (  # type: ignore[import-not-found, unused-ignore]
                make_tensor_arg,
            )
        except ImportError:
            make_tensor_arg = self.api.make_tensor_arg
        by_worker = len(inspect.signature(make_tensor_arg).parameters) == 2
        if not by_worker:
            args = self.api.ChipStorageTaskArgs()
            for tensor in self.tensors:
                args.add_tensor(make_tensor_arg(tensor))
        else:
            kinds = self.api.TensorArgType
            tags = {"IN": kinds.INPUT, "OUT": kinds.OUTPUT_EXISTING, "INOUT": kinds.INOUT}
            args = self.api.TaskArgs()
            for tensor, direction in zip(self.tensors, self.directions, strict=True):
                args.add_tensor(make_tensor_arg(self.worker, tensor), tags[direction])
        for scalar in self.scalars:
            args.add_scalar(scalar)
        return args

    def run(self) -> None:
        self.worker.run(self.handle, self.arguments(), config=self.config)

    def close(self) -> None:
        self.worker.close()


def takes(function: Any, name: str) -> bool:
    """Return whether a function has a parameter; true for compiled functions, which cannot be inspected."""
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return True


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def unknown_interface(error: Exception) -> str:
    return f"this simpler's interface is unknown; those of April to August 2026 are supported: {describe(error)}"


def describe(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text or type(error).__name__


def reply(results: int, message: dict[str, Any]) -> None:
    data = json.dumps(message).encode() + b"\n"
    while data:
        data = data[os.write(results, data) :]


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
