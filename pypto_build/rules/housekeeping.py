"""``gc``: what the store of results holds, and what it would lose to its size."""

from __future__ import annotations

from collections.abc import Sequence

from SCons.Action import Action

from pypto_build import terminal
from pypto_build.proof.store import Entry
from pypto_build.rules.machinery.scons_types import Environment, Nodes
from pypto_build.rules.machinery.workspace import workspace_of

_GIGABYTE = 1 << 30


def declare_gc(env: Environment) -> None:
    """The target; nothing is removed without ``WRITE=1``."""
    env.AlwaysBuild(env.Alias("gc", [], Action(_collect, None)))


def _collect(target: Nodes, source: Nodes, env: Environment) -> None:
    workspace = workspace_of(env)
    store, size = workspace.store, int(workspace.options["STORE_SIZE"] * _GIGABYTE)
    entries = list(store.entries())
    gone = store.excess(size)
    terminal.say(
        f"[store] {store.directory}: {_amount(entries)}; STORE_SIZE={workspace.options['STORE_SIZE']:g} gigabytes"
    )
    if not gone:
        terminal.say("[store] nothing has to go")
    elif workspace.options["WRITE"]:
        store.shrink(size)
        terminal.say(f"[store] removed {_amount(gone)}, those not used for longest")
    else:
        terminal.say(f"[store] {_amount(gone)} would be removed, those not used for longest; WRITE=1 removes them")


def _amount(entries: Sequence[Entry]) -> str:
    total = sum(entry.size for entry in entries)
    return f"{len(entries)} file{'' if len(entries) == 1 else 's'}, {total / (1 << 20):.1f} MB"
