"""Makes a directory with another distribution, for `python -m tests.machines --root DIR`.

    python -m tests.machines.roots bookworm-arm64 DIR

Needs mmdebstrap; to use one of another processor also bubblewrap and qemu-user-static, whose interpreter the system
must know (`/proc/sys/fs/binfmt_misc/qemu-aarch64`; `systemctl restart systemd-binfmt` registers it).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

_EVERY = (
    "bash,coreutils,libc-bin,dash,diffutils,grep,sed,findutils,procps,git,ca-certificates,util-linux,hostname,gawk,"
    "base-files,base-passwd,login,passwd,bubblewrap,g++"
)
#: The suite, the processor, and the packages beside those that every root has.
ROOTS = {
    "bookworm-arm64": ("bookworm", "arm64", "python3,python3-venv,python3-dev,clang-16,gdb"),
    "bookworm-i386": ("bookworm", "i386", "python3,python3-venv"),  # outside of the matrix
    "bullseye": ("bullseye", "amd64", "g++-10,make,libssl-dev,libffi-dev,zlib1g-dev,xz-utils"),  # glibc 2.31; no Python
    "trixie": ("trixie", "amd64", "python3,python3-venv,python3-dev,g++-13,g++-14,clang-17,clang-18,clang-19"),
    "forky": ("forky", "amd64", "python3.14,python3.14-venv,python3.14-dev"),
}
# Of the archive's files, which may be older than it promises.
_OPTIONS = ('Acquire::Languages "none"', 'Acquire::Check-Valid-Until "false"')


def main() -> int:
    """Make the root; the exit status of mmdebstrap."""
    parser = argparse.ArgumentParser(prog="python -m tests.machines.roots", description=main.__doc__)
    parser.add_argument("name", choices=ROOTS)
    parser.add_argument("directory", type=Path)
    options = parser.parse_args()
    suite, processor, packages = ROOTS[options.name]
    command = ["mmdebstrap", "--variant=extract", f"--architectures={processor}", f"--include={_EVERY},{packages}"]
    command += [f"--aptopt={option}" for option in _OPTIONS]
    status = subprocess.run([*command, suite, str(options.directory)], check=False).returncode
    awk = options.directory / "usr" / "bin" / "awk"
    if not status and not awk.is_symlink():  # what the packages' own scripts would do
        awk.symlink_to("gawk")
    return status


if __name__ == "__main__":
    sys.exit(main())
