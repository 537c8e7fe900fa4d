"""Keeps SCons's signatures of files that users' own builders make, in BUILD_DIR; our nodes need none.

The record of an output directory proves the outputs of our actions (pypto_build.proof). It is updated when
users' builders have run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import SCons.Node
import SCons.Node.Alias
import SCons.SConsign
from SCons.Util.hashes import hash_signature

from pypto_build.rules.machinery.inputs import MADE_BY_US, has_rule

#: In BUILD_DIR: the name of the database, to which SCons adds ``.dblite``.
SIGNATURES = ".sconsign"
#: The file of a replay's verdict.
VERDICT = "verdict.json"
#: Decides whether a dependency of a target differs from what it was; the last is SCons' own business.
Decide = Callable[[Any, Any, Any, Any], bool]
_CACHED = re.compile(rb'("cached": ?)(true|false)')
_STORE = SCons.Node.store_info_file
_OPEN = SCons.SConsign.Get_DataBase


class _Signatures:
    """The database, which is created and written only if something changed."""

    def __init__(self, build_dir: Path, built: Callable[[], object]) -> None:
        self._build_dir = build_dir
        self._built = built
        self._stored = False

    def open(self, directory: Any) -> tuple[Any, str]:
        """Return the object by which SCons reads and writes the signatures of a directory."""
        if not (self._stored or os.path.exists(f"{SCons.SConsign.DB_Name}.dblite")):
            return {}, "c"
        database, mode = _OPEN(directory)
        SCons.SConsign.DB_sync_list[:] = [database] if self._stored else []
        return database, mode

    def visit(self, node: Any) -> None:
        """Notify that a user's builder has made a file, before nodes that depend on the file are checked."""
        if node.get_state() == SCons.Node.executed and not getattr(node.attributes, MADE_BY_US, False):
            self._built()

    def store(self, node: Any) -> None:
        """Store SCons's data about a node that SCons decides; our nodes, which are always built, are skipped."""
        self.visit(node)
        if SCons.Node.do_store_info and has_rule(node) and not node.always_build:
            self._stored = True
            self._build_dir.mkdir(parents=True, exist_ok=True)
            _STORE(node)


def decide_verdicts(decide: Decide) -> Decide:
    """Return a decider that works as ``decide``, but ignores whether a verdict is cached."""

    def changed(dependency: Any, target: Any, before: Any, repository: Any = None) -> bool:
        differs = decide(dependency, target, before, repository)
        if not differs or dependency.name != VERDICT or not hasattr(before, "csig"):
            return differs
        text = Path(dependency.get_abspath()).read_bytes()
        other = _CACHED.sub(lambda match: match[1] + (b"true" if match[2] == b"false" else b"false"), text)
        return bool(before.csig != hash_signature(other))

    return changed


def _ready(alias: Any) -> None:
    """Avoid reading the files of an alias: SCons would read them only for its signature, and some have megabytes."""
    alias.get_ninfo()  # which SCons updates if all of them are up to date


def keep_signatures_of_users(build_dir: Path, built: Callable[[], object]) -> None:
    """Keep the signatures in ``build_dir``, unless the SConstruct names another file; call ``built`` whenever a builder
    of users has made something."""
    signatures = _Signatures(build_dir, built)
    if SCons.SConsign.DB_Name is None:
        SCons.SConsign.DB_Name = str(build_dir / SIGNATURES)
    SCons.SConsign.ForDirectory = SCons.SConsign.DB
    SCons.SConsign.Get_DataBase = signatures.open
    SCons.Node.store_info_map.update({0: signatures.visit, 1: signatures.store})
    SCons.Node.Alias.Alias.make_ready = _ready
