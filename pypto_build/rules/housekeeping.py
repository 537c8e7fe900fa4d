"""``gc``: what the store of results holds, and what it would lose to its size."""

from __future__ import annotations

import time
from collections.abc import Sequence

from SCons.Action import Action

from pypto_build import terminal
from pypto_build.proof.eviction import Entry, excess, remove
from pypto_build.proof.remote import DirectoryStore, RemoteError, open_remote
from pypto_build.proof.shared import without_password
from pypto_build.rules.machinery.scons_types import Environment, Nodes
from pypto_build.rules.machinery.workspace import Workspace, workspace_of
from pypto_build.rules.options import OptionError

_GIGABYTE = 1 << 30
_DAY_NS = 24 * 3600 * 10**9


def declare_gc(env: Environment) -> None:
    """The target; nothing is removed without ``WRITE=1``."""
    env.AlwaysBuild(env.Alias("gc", [], Action(_collect, None)))


def _collect(target: Nodes, source: Nodes, env: Environment) -> None:
    options = workspace_of(env).options
    place, found = _looked_at(workspace_of(env))
    oldest_ns = time.time_ns() - int(options["DAYS"] * _DAY_NS) if options["DAYS"] else 0
    gone = excess(found, int(options["STORE_SIZE"] * _GIGABYTE), oldest_ns)
    days = f", DAYS={options['DAYS']:g}" if options["DAYS"] else ""
    terminal.say(f"[store] {place}: {_amount(found)}; STORE_SIZE={options['STORE_SIZE']:g} gigabytes{days}")
    if not gone:
        terminal.say("[store] nothing has to go")
    elif options["WRITE"]:
        remove(gone)
        terminal.say(f"[store] removed {_amount(gone)}, those not used for longest")
    else:
        terminal.say(f"[store] {_amount(gone)} would be removed, those not used for longest; WRITE=1 removes them")


def _looked_at(workspace: Workspace) -> tuple[str, list[Entry]]:
    """The directory to look at, and what is in it: of the store that STORE_REMOTE= names, else of this user's."""
    url: str = workspace.options["STORE_REMOTE"]
    if not url:
        return str(workspace.store.directory), list(workspace.store.entries())
    try:
        remote = open_remote(url)
        if not isinstance(remote, DirectoryStore):
            raise RemoteError("a server keeps its size by its own settings; gc is for directories")
        return url, list(remote.entries())
    except RemoteError as error:
        raise OptionError(f"STORE_REMOTE={without_password(url)}: {error}") from None


def _amount(entries: Sequence[Entry]) -> str:
    total = sum(entry.size for entry in entries)
    return f"{len(entries)} file{'' if len(entries) == 1 else 's'}, {total / (1 << 20):.1f} MB"
