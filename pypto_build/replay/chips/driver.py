"""Executes a host driver, which only enqueues work, and records its dispatches.

This happens in the replay's child process, and never where files are merely inspected.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pypto_build.facts.faults import FaultKind
from pypto_build.replay.chips.dispatches import Dispatch
from pypto_build.replay.chips.memory import Windows
from pypto_build.replay.chips.regions import NO_REGIONS, HostRegions
from pypto_build.replay.chips.stand_ins import CallConfig, Handle, Orchestrator, stand_ins
from pypto_build.replay.chips.tensors import HostTensor
from pypto_build.replay.scalars import Scalar
from pypto_build.runtime.faults import RuntimeFault, python_fault

_MARK = "_pypto_distributed_entry"
_HINT = "correct orchestration/host_orch.py, or compile again"


@dataclass(frozen=True)
class Plan:
    """The work of a driver: its dispatches in order, and the domains in which they communicate.

    `tensors` are all host tensors by the driver's names; their memory is shared by the ranks.
    """

    dispatches: list[Dispatch]
    domains: list[Windows]
    tensors: Mapping[str, Any]


def execute_driver(
    driver: Path,
    tensors: Mapping[str, HostTensor],
    scalars: Mapping[str, Scalar],
    world: int,
    programs: Iterable[str],
    host_callables: Iterable[str] = (),
    regions: HostRegions = NO_REGIONS,
) -> Plan:
    """Return the plan that `driver` makes for `world` ranks. Raises `RuntimeFault` with the driver's line for any
    exception in it."""
    names_of_programs = frozenset(programs)
    orchestrator = Orchestrator(world, driver, names_of_programs, regions)
    names: dict[str, Any] = {**tensors, **scalars}
    try:
        code = compile(driver.read_text(encoding="utf-8"), str(driver), "exec")
        with stand_ins():
            namespace: dict[str, Any] = {"__name__": "host_orch", "__file__": str(driver)}
            exec(code, namespace)
            entry = _entry(driver, namespace)
            _allocate(namespace.get("_alloc_intermediates"), names, world)
            _call(entry, orchestrator, names, names_of_programs, host_callables)
    except RuntimeFault:
        raise
    except Exception as error:
        raise _fault(driver, error) from None
    return Plan(orchestrator.graph.all, orchestrator.domains, names)


def _entry(driver: Path, namespace: Mapping[str, Any]) -> Callable[..., Any]:
    """Return the single function that carries the mark. Raises `RuntimeFault`."""
    entries = {name: value for name, value in namespace.items() if getattr(value, _MARK, False) is True}
    if len(entries) != 1:
        what = (
            f"{len(entries)} functions carry {_MARK}: {', '.join(entries)}"
            if entries
            else f"no function carries {_MARK}"
        )
        raise RuntimeFault(python_fault(FaultKind.DRIVER, f"{driver.name}: {what}", hint=_HINT))
    function: Callable[..., Any] = next(iter(entries.values()))
    return function


def _allocate(allocate: Callable[..., Any] | None, names: dict[str, Any], world: int) -> None:
    """Let the driver add its intermediates; older drivers take no number of ranks."""
    if allocate is not None:
        takes_world = len(inspect.signature(allocate).parameters) > 1
        allocate(names, *([world] if takes_world else []))


def _call(
    entry: Callable[..., Any],
    orchestrator: Orchestrator,
    names: dict[str, Any],
    programs: Iterable[str],
    host_callables: Iterable[str],
) -> None:
    arguments: dict[str, Any] = {
        "tensors": names,
        "callables": {name: Handle(name) for name in programs},
        "sub_ids": {name: Handle(name) for name in host_callables},
        "_keep": [],
        "world_size": orchestrator.world,
        "_domain_provider": None,
    }
    taken = inspect.signature(entry).parameters
    entry(orchestrator, None, CallConfig(), **{name: value for name, value in arguments.items() if name in taken})


def _fault(driver: Path, error: Exception) -> RuntimeFault:
    """Return the fault for an exception of the driver, with its line."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(driver)]
    line = f":{lines[-1]}" if lines else ""
    text = str(error) or type(error).__name__
    if isinstance(error, KeyError):
        text = f"there is no {error}"
    elif isinstance(error, ImportError):
        text = f"{error}: nothing stands in for it"
    return RuntimeFault(
        python_fault(FaultKind.DRIVER, f"orchestration/{driver.name}{line}: {type(error).__name__}: {text}", hint=_HINT)
    )
