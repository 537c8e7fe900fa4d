"""SCons keeps no signatures: what is built is proven by the record of its place (pypto_build.proof)."""

from __future__ import annotations

import SCons.SConsign


class _Forgetful(dict[str, bytes]):
    """A database that lives as long as the process."""

    def sync(self) -> None:
        """Nothing to write."""

    def close(self) -> None:
        """Nothing to close."""


def keep_no_signatures() -> None:
    """Take over from SCons' database."""
    forgetful = _Forgetful()

    def database(directory: object) -> tuple[_Forgetful, str]:
        return forgetful, "c"

    SCons.SConsign.ForDirectory = SCons.SConsign.DB
    SCons.SConsign.Get_DataBase = database
