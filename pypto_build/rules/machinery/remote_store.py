"""``STORE_REMOTE=``: this user's store in front of a shared one."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path

from pypto_build.proof.remote import RemoteError, open_remote
from pypto_build.proof.shared import SharedStore, Upload, without_password
from pypto_build.rules.options import OptionError
from pypto_build.toolchain.cache import REMOTE_VARIABLE, SHIPPED
from pypto_build.toolchain.python import own_environment, own_tool


def open_store(directory: Path, size: int, url: str, upload: str) -> SharedStore:
    """Return the store in ``directory`` in front of the one at ``url``; ``upload`` is a value of STORE_UPLOAD.

    Raises:
        OptionError: the address is not that of a store.
    """
    try:
        open_remote(url)
    except RemoteError as error:
        raise OptionError(f"STORE_REMOTE={without_password(url)}: {error}") from None
    return SharedStore(directory, size, url, Upload(upload), lambda: _start_sending(directory, url), SHIPPED)


def _start_sending(directory: Path, url: str) -> None:
    """Start a process, which outlives this one, that sends the queued results."""
    command = [*own_tool("pypto_build.proof.upload"), str(directory)]
    # The address may hold a password, which must not be among the words of a command, that everybody sees.
    environment = own_environment() | {REMOTE_VARIABLE: url}
    streams = subprocess.DEVNULL
    with suppress(OSError):
        subprocess.Popen(
            command, stdin=streams, stdout=streams, stderr=streams, start_new_session=True, cwd="/", env=environment
        )
