"""Makes a directory with another distribution, for `python -m tests.machines --root DIR`.

    python -m tests.machines.roots bookworm-arm64 DIR

Needs mmdebstrap, and bubblewrap to use it. One of another processor also needs qemu-user-static, whose interpreter the
system must know: `systemctl restart systemd-binfmt` registers it, or where there is no systemd, as root,
`head -1 /usr/lib/binfmt.d/qemu-aarch64.conf > /proc/sys/fs/binfmt_misc/register`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.compilers import COMPILERS

_EVERY = (
    "bash,coreutils,libc-bin,dash,diffutils,grep,sed,findutils,procps,git,ca-certificates,util-linux,hostname,gawk,"
    "base-files,base-passwd,login,passwd,bubblewrap,g++"
)
_COMPILERS = ",".join(name.replace("clang++", "clang") for name in COMPILERS)
# Libraries that interpreters of pyenv are linked to.
_LIBRARIES = "libssl3t64,libffi8,libsqlite3-0,liblzma5,libbz2-1.0,libreadline8t64,zlib1g,libncursesw6,libexpat1,gdb"
#: The suites, the processor, and the packages beside those that every root has.
ROOTS = {
    "bookworm-arm64": (("bookworm",), "arm64", "python3,python3-venv,python3-dev,clang-16,gdb"),
    "bookworm-i386": (("bookworm",), "i386", "python3,python3-venv"),  # outside of the matrix
    "bullseye": (
        ("bullseye",),
        "amd64",
        "g++-10,make,libssl-dev,libffi-dev,zlib1g-dev,xz-utils",
    ),  # glibc 2.31; no Python
    "trixie": (("trixie",), "amd64", "python3,python3-venv,python3-dev,g++-13,g++-14,clang-17,clang-18,clang-19"),
    # Every compiler of the matrix beside the newest Python; interpreters of pyenv are mounted there.
    "matrix": (
        ("forky", "trixie", "bookworm", "bullseye"),
        "amd64",
        f"python3.14,python3.14-venv,python3.14-dev,{_COMPILERS},{_LIBRARIES}",
    ),
}
# Of the archive's files, which may be older than it promises.
_OPTIONS = ('Acquire::Languages "none"', 'Acquire::Check-Valid-Until "false"')


def sources(suites: Sequence[str]) -> list[str]:
    """Return lines for apt, with the archive of Debian that this machine uses; none where it uses none."""
    command = ["apt-get", "indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split("\n")
    archives = [line.removeprefix("Debian ") for line in listed if line.startswith("Debian ")]
    return [f"deb {archives[0]} {suite} main" for suite in suites] if archives else []


def main() -> int:
    """Make the root; the exit status of mmdebstrap."""
    parser = argparse.ArgumentParser(prog="python -m tests.machines.roots", description=main.__doc__)
    parser.add_argument("name", choices=ROOTS)
    parser.add_argument("directory", type=Path)
    options = parser.parse_args()
    suites, processor, packages = ROOTS[options.name]
    command = ["mmdebstrap", "--variant=extract", f"--architectures={processor}", f"--include={_EVERY},{packages}"]
    command += [f"--aptopt={option}" for option in _OPTIONS]
    status = subprocess.run([*command, suites[0], str(options.directory), *sources(suites)], check=False).returncode
    awk = options.directory / "usr" / "bin" / "awk"
    if not status and not awk.is_symlink():  # what the packages' own scripts would do
        awk.symlink_to("gawk")
    return status


if __name__ == "__main__":
    sys.exit(main())
