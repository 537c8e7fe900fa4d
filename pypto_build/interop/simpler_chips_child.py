"""Runs a distributed artifact through simpler's Worker of level 3, as ``simpler_child.py`` does for one chip.

usage: simpler_chips_child.py JOB.json COMMANDS RESULTS

The driver and the host callables are executed here, in simpler's own Python, with simpler's own classes. They import
three functions of PyPTO. This file defines these functions, so that PyPTO need not be installed.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    sys.path.pop(0)  # this directory, whose files would hide modules of the same name

import inspect
import json
import os
import types
from typing import Any

_MARK = "_pypto_distributed_entry"


def execute(path: str, name: str) -> Any:
    """Return a file as an imported module; simpler needs that to send host callables to processes."""
    module = types.ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module
    with open(path, encoding="utf-8") as file:
        exec(compile(file.read(), path, "exec"), vars(module))
    return module


simpler_child = execute(os.path.join(os.path.dirname(os.path.abspath(__file__)), "simpler_child.py"), "simpler_child")


class ChipsSession(simpler_child.Session):  # type: ignore[misc, name-defined, unused-ignore]
    """A worker with all chip programs registered, one process a chip, and the host tensors that they share."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.import_simpler(job)
        self.job, self.world = job, len(job["devices"])
        self.views = {row["name"]: self.tensor(row) for row in job["tensors"]}
        self.names: dict[str, Any] = {name: view.clone().share_memory_() for name, view in self.views.items()}
        self.names |= job["named_scalars"]
        self.config = self.call_config(job["config"], job["output_prefix"])
        self.turn = 0
        self.dispatched: dict[int, int] = {}
        self.stand_in()
        self.entry, allocate = self.driver(job["driver"])
        if allocate is not None:  # before the worker forks its processes, so that they share this memory
            takes_world = len(inspect.signature(allocate).parameters) > 1
            allocate(self.names, *([self.world] if takes_world else []))
        functions = {name: self.host_callable(name, path) for name, path in job["sub_workers"].items()}
        programs = {name: self.callable(row, row["signature"]) for name, row in job["chips"].items()}
        self.worker = self.new_worker(
            level=3,
            device_ids=job["devices"],
            num_sub_workers=max(job["num_sub_workers"], len(functions)),
            platform=job["platform"],
            runtime=job["runtime"],
        )
        self.host = {name: self.worker.register(function) for name, function in functions.items()}
        self.chips = {name: self.worker.register(program) for name, program in programs.items()}
        self.worker.init()

    def stand_in(self) -> None:
        """Define the modules of PyPTO that drivers and host callables import."""
        content: dict[str, dict[str, Any]] = {
            "pypto": {},
            "pypto.runtime": {},
            "pypto.runtime.tensor_arg": {"make_tensor_arg": self.make_tensor_arg},
            "pypto.runtime.distributed_runner": {
                "_submit_chip": self.submit_chip,
                "_tensor_from_continuous": mapped,
            },
        }
        for name, values in content.items():
            module = sys.modules[name] = types.ModuleType(name)
            module.__path__ = []
            vars(module).update(values)

    def make_tensor_arg(self, worker: Any, tensor: Any) -> Any:
        """Return a host tensor as an argument; an argument is returned unchanged."""
        if isinstance(tensor, self.api.Tensor):
            return tensor
        from simpler_setup.torch_interop import (  # type: ignore[import-not-found, unused-ignore]
            make_tensor_arg,
        )

        return make_tensor_arg(worker, tensor)

    def submit_chip(self, orch: Any, handle: Any, args: Any, config: Any, rank: int | None) -> Any:
        """Dispatch to a rank, or to the next in turn if there is none; each dispatch has its own directory for
        records."""
        if rank is None:
            rank, self.turn = self.turn % self.world, self.turn + 1
        base = getattr(config, "output_prefix", "")
        if not base:
            return orch.submit_next_level(handle, args, config, worker=rank)
        number = self.dispatched[rank] = self.dispatched.get(rank, -1) + 1
        directory = os.path.join(base, f"rank{rank}", f"d{number}")
        os.makedirs(directory, exist_ok=True)
        program = next((name for name, program_handle in self.chips.items() if program_handle is handle), "")
        with open(os.path.join(directory, "dispatch_program.json"), "w", encoding="utf-8") as file:
            json.dump({"program": program}, file)
        config.output_prefix = directory
        try:
            return orch.submit_next_level(handle, args, config, worker=rank)
        finally:
            config.output_prefix = base

    def driver(self, path: str) -> tuple[Any, Any]:
        """Return the driver's marked function, and the one that adds its intermediates, if there is one."""
        namespace = vars(execute(path, "host_orch"))
        entries = [value for value in namespace.values() if getattr(value, _MARK, False) is True]
        if len(entries) != 1:
            raise simpler_child.Unfit(
                "runtime_error", f"{os.path.basename(path)}: {len(entries)} functions carry {_MARK}"
            )
        return entries[0], namespace.get("_alloc_intermediates")

    def host_callable(self, name: str, path: str) -> Any:
        """Return the function that has the name of its file."""
        function = getattr(execute(path, f"sub_workers_{name}"), name, None)
        if not callable(function):
            raise simpler_child.Unfit("runtime_error", f"sub_workers/{name}.py defines no function '{name}'")
        return function

    def run(self) -> None:
        for name, view in self.views.items():
            self.names[name].copy_(view)
        self.turn, self.dispatched = 0, {}
        names, kept = dict(self.names), []  # type: ignore[var-annotated]
        arguments: dict[str, Any] = {
            "tensors": names,
            "callables": self.chips,
            "sub_ids": self.host,
            "_keep": kept,
            "world_size": self.world,
            "_domain_provider": None,
        }
        taken = inspect.signature(self.entry).parameters
        arguments = {name: value for name, value in arguments.items() if name in taken}
        self.worker.run(lambda orch, _args, _config: self.entry(orch, None, self.config, **arguments))
        for name, view in self.views.items():
            view.copy_(self.names[name])


def mapped(argument: Any) -> Any:
    """Return an argument of a host callable as a tensor on the same memory; this runs in the callable's own process."""
    import torch
    from simpler import task_interface  # type: ignore[import-not-found, unused-ignore]

    name = str(argument.dtype).rpartition(".")[2]
    name = task_interface.DataType(int(name)).name if name.isdecimal() else name
    shape, strides = ([int(one) for one in sizes] for sizes in (argument.shapes, argument.strides))
    count = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    whole = torch.frombuffer(argument.buffer, dtype=getattr(torch, name.lower()), count=count)
    return whole.as_strided(shape, strides)


if __name__ == "__main__":
    simpler_child.main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), ChipsSession)
