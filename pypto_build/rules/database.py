"""Where SCons keeps its signatures: one database for each output directory, and nothing anywhere else.

SCons has one database for a whole run. Two runs that build different artifacts would then overwrite each other's
records, so the choice is made by directory instead: ``OUT/.sconsign.dblite`` for everything under ``OUT``, and a
throwaway dictionary for directories of sources, whose content is hashed anew on every run.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

import SCons.SConsign

from pypto_build.rules.actions import complain


class _Forgetful(dict[str, bytes]):
    """A database that lives as long as the process."""

    def sync(self) -> None:
        """Nothing to write."""

    def close(self) -> None:
        """Nothing to close."""


class _Saved:
    """What SCons does with a database at the end of a run: a disk that is full loses signatures, not the run."""

    def __init__(self, database: Any, path: str) -> None:
        self._database, self._path = database, path

    def sync(self) -> None:
        """Write it if it changed."""
        try:
            self._database.close()
        except OSError as error:
            self._database._needs_sync = False  # it would try again
            with suppress(OSError):
                os.unlink(f"{self._path}.tmp")
            complain(f"scons: {self._path}.dblite: {error.strerror}; what was built in this run will be built again")

    def close(self) -> None:
        """Nothing to close."""


class OutputDatabases:
    """Routes SCons' signature look-ups to the database of the output directory they fall in."""

    def __init__(self) -> None:
        self._outputs: dict[str, Any] = {}
        self._elsewhere = _Forgetful()

    def install(self) -> None:
        """Take over from SCons' single database."""
        SCons.SConsign.ForDirectory = SCons.SConsign.DB
        SCons.SConsign.Get_DataBase = self._database

    def add(self, output: str) -> None:
        """``output`` (absolute) keeps a database of its own from now on."""
        if output not in self._outputs:
            database = SCons.SConsign.DB_Module.open(os.path.join(output, ".sconsign"), "c")
            SCons.SConsign.DB_sync_list.append(_Saved(database, os.path.join(output, ".sconsign")))
            self._outputs[output] = database

    def _database(self, directory: Any) -> tuple[Any, str]:
        path = directory.get_abspath()
        for output, database in self._outputs.items():
            if path == output or path.startswith(output + os.sep):
                return database, "c"
        return self._elsewhere, "c"
