"""SCons keeps no signatures: what is built is proven by the record of its place (pypto_build.proof)."""

from __future__ import annotations

import SCons.Node.Alias
import SCons.SConsign


class _Forgetful(dict[str, bytes]):
    """A database that lives as long as the process."""

    def sync(self) -> None:
        """Nothing to write."""

    def close(self) -> None:
        """Nothing to close."""


def _ready(_alias: object) -> None:
    """Read no file that an alias stands for: that would be for its signature, and some have megabytes."""


def keep_no_signatures() -> None:
    """Take over from SCons' database."""
    forgetful = _Forgetful()

    def database(directory: object) -> tuple[_Forgetful, str]:
        return forgetful, "c"

    SCons.SConsign.ForDirectory = SCons.SConsign.DB
    SCons.SConsign.Get_DataBase = database
    SCons.Node.Alias.Alias.make_ready = _ready
