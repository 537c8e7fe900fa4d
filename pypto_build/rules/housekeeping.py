"""``gc``: shows the use of disk space, and what it would remove: builds that are not needed, excess files of the
store.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Sequence

from SCons.Action import Action

from pypto_build import terminal
from pypto_build.proof.eviction import Entry, excess, remove
from pypto_build.proof.remote import DirectoryStore, RemoteError, open_remote
from pypto_build.proof.shared import without_password
from pypto_build.replay.verdict import EXIT_STATUS
from pypto_build.rules.disk import Use, cached, others, outputs
from pypto_build.rules.machinery.cleaning import clean_output
from pypto_build.rules.machinery.locks import release_output, try_lock
from pypto_build.rules.machinery.scons_types import Environment, Nodes
from pypto_build.rules.machinery.workspace import Workspace, workspace_of
from pypto_build.rules.options import OptionError
from pypto_build.toolchain.cache import cache_dir

_MEGABYTE, _GIGABYTE = 1 << 20, 1 << 30
_SHOWN = 10
_DAY_NS = 24 * 3600 * 10**9


def declare_gc(env: Environment) -> None:
    """Declare the target; nothing is removed without ``WRITE=1``."""
    env.AlwaysBuild(env.Alias("gc", [], Action(_collect, None)))


def _collect(target: Nodes, source: Nodes, env: Environment) -> int:
    if not workspace_of(env).options["STORE_REMOTE"]:
        _collect_builds(workspace_of(env))
    try:
        _collect_store(workspace_of(env))
    except OptionError as error:
        terminal.complain(f"scons: *** {error}")
        return EXIT_STATUS["usage_error"]
    return 0


def _collect_builds(workspace: Workspace) -> None:
    """Remove builds of missing artifacts, and with DAYS= all builds unused since then."""
    days = workspace.options["DAYS"]
    oldest_ns = time.time_ns() - int(days * _DAY_NS) if days else 0
    built, more = outputs(workspace.build_dir), others(workspace.build_dir)
    shared = cached(cache_dir())
    _show_builds(workspace, built)
    for label, uses in (("build", more), ("cache", shared)):
        if uses:
            where = workspace.short_of_top(workspace.build_dir) if label == "build" else cache_dir()
            what = "unpacked packs and logs" if label == "build" else "versions of runtime, headers and instructions"
            terminal.say(f"[{label}] {where}: {_megabytes(uses)} in {len(uses)} {what}")
    gone = [use for use in built if use.lost or use.used_ns < oldest_ns]
    gone += [use for use in (*more, *shared) if use.used_ns < oldest_ns]
    for use in gone if workspace.verbose else gone[:_SHOWN]:
        why = f"its artifact is gone: {use.lost}" if use.lost else f"not used for {_days(use):.0f} days"
        terminal.say(f"[build] {workspace.short_of_top(use.path)}: {_megabytes([use])}, {why}")
    if len(gone) > _SHOWN and not workspace.verbose:
        terminal.say(f"[build] and {len(gone) - _SHOWN} more; VERBOSE=1 lists them")
    if not gone:
        terminal.say("[build] nothing has to go")
    elif workspace.options["WRITE"]:
        kept = [use for use in gone if not _discard(use, workspace, use in built)]
        terminal.say(f"[build] removed {_megabytes(set(gone) - set(kept))}")
        for use in kept:
            terminal.say(f"[build] {workspace.short_of_top(use.path)}: in use, or holds files of others; kept")
    else:
        terminal.say(f"[build] {_megabytes(gone)} would be removed; WRITE=1 removes it")


def _show_builds(workspace: Workspace, built: Sequence[Use]) -> None:
    """Print the artifacts that use most space, with all platforms of each added up."""
    by_name: dict[str, list[Use]] = {}
    for use in built:
        by_name.setdefault(use.path.name, []).append(use)
    ordered = sorted(by_name.items(), key=lambda item: -sum(use.size for use in item[1]))
    where = workspace.short_of_top(workspace.build_dir)
    terminal.say(f"[build] {where}: {_megabytes(built)} of {len(by_name)} artifact{'' if len(by_name) == 1 else 's'}")
    shown = ordered if workspace.verbose else ordered[:_SHOWN]
    width = max((len(name) for name, _ in shown), default=0)
    for name, uses in shown:
        runs, packs = sum(use.runs for use in uses), sum(use.packs for use in uses)
        platforms = ", ".join(use.path.parent.name for use in uses)
        of_it = f"runs {runs / _MEGABYTE:.1f}" + (f", packs {packs / _MEGABYTE:.1f}" if packs else "")
        used = min(map(_days, uses))
        terminal.say(f"    {name:<{width}}  {_megabytes(uses):>10}  ({of_it})  {platforms}, used {used:.0f} days ago")
    if len(shown) < len(ordered):
        rest = [use for _, uses in ordered[len(shown) :] for use in uses]
        terminal.say(f"    and {len(ordered) - len(shown)} more, {_megabytes(rest)}; VERBOSE=1 lists them")


def _discard(use: Use, workspace: Workspace, built: bool) -> bool:
    """Remove a build unless another process works there; return True if it is gone."""
    path = use.path
    if not path.is_dir():
        path.unlink(missing_ok=True)
        return True
    if not (built or (path / ".lock").exists()):
        shutil.rmtree(path, ignore_errors=True)
        return not path.exists()
    if not try_lock(path):
        return False
    try:
        if built:
            return not clean_output(path, workspace)
        shutil.rmtree(path, ignore_errors=True)
        return not path.exists()
    finally:
        release_output(path)


def _days(use: Use) -> float:
    return max(0.0, (time.time_ns() - use.used_ns) / _DAY_NS)


def _megabytes(uses: Iterable[Use]) -> str:
    return f"{sum(use.size for use in uses) / _MEGABYTE:.1f} MB"


def _collect_store(workspace: Workspace) -> None:
    options = workspace.options
    store_dir, entries = _looked_at(workspace)
    oldest_ns = time.time_ns() - int(options["DAYS"] * _DAY_NS) if options["DAYS"] else 0
    gone = excess(entries, int(options["STORE_SIZE"] * _GIGABYTE), oldest_ns)
    days = f", DAYS={options['DAYS']:g}" if options["DAYS"] else ""
    terminal.say(f"[store] {store_dir}: {_amount(entries)}; STORE_SIZE={options['STORE_SIZE']:g} gigabytes{days}")
    if not gone:
        terminal.say("[store] nothing has to go")
    elif options["WRITE"]:
        remove(gone)
        terminal.say(f"[store] removed {_amount(gone)}, those not used for longest")
    else:
        terminal.say(f"[store] {_amount(gone)} would be removed, those not used for longest; WRITE=1 removes them")


def _looked_at(workspace: Workspace) -> tuple[str, list[Entry]]:
    """Return the store's directory and its entries: the store of STORE_REMOTE=, else this user's."""
    url: str = workspace.options["STORE_REMOTE"]
    if not url:
        return str(workspace.store.directory), list(workspace.store.entries())
    try:
        remote = open_remote(url)
        if not isinstance(remote, DirectoryStore):
            raise RemoteError(
                "gc cleans only stores that are directories; set the size limit of a server in the server"
            )
        return url, list(remote.entries())
    except RemoteError as error:
        raise OptionError(f"STORE_REMOTE={without_password(url)}: {error}") from None


def _amount(entries: Sequence[Entry]) -> str:
    total = sum(entry.size for entry in entries)
    return f"{len(entries)} file{'' if len(entries) == 1 else 's'}, {total / _MEGABYTE:.1f} MB"
