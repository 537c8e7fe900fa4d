"""A machine that is tried: this one, or a directory with another distribution."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pypto_build.facts.system_calls import call_filter

CLONE = Path(__file__).resolve().parents[2]
#: The interpreters of pyenv, which a root of the same processor can use.
VERSIONS = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv", "versions")
_WORK = Path("/work-of-machines")  # in a root


@dataclass
class Machine:
    """A root, or this machine where `root` is None; `work` is a directory that its commands see as `inside`."""

    root: Path | None
    work: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def inside(self) -> Path:
        """The path of `work` for a command."""
        return self.work if self.root is None else _WORK

    def run(self, words: Sequence[str], directory: Path) -> tuple[int, str]:
        """Run a command in a directory, as it sees it; its exit status and output."""
        home = self.work / "home"
        home.mkdir(exist_ok=True)
        environment = {**os.environ, "CI": "1", "HOME": str(self.inside / "home"), **self.environment}
        for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "VIRTUAL_ENV"):
            environment.pop(name, None)
        if self.root is not None:
            environment["PATH"] = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
            words = [*self._enter(directory), *words]
        where = directory if self.root is None else None
        output = subprocess.PIPE
        run = subprocess.run(
            words, cwd=where, env=environment, stdout=output, stderr=subprocess.STDOUT, text=True, check=False
        )
        return run.returncode, run.stdout

    def _enter(self, directory: Path) -> list[str]:
        # A sandbox there mounts a /proc of its own, which it may where this one is whole.
        words = [
            "bwrap",
            "--bind",
            str(self.root),
            "/",
            "--dev",
            "/dev",
            "--dev-bind",
            "/proc",
            "/proc",
            "--tmpfs",
            "/tmp",
        ]
        for path in ("/etc/resolv.conf", "/etc/hosts", "/etc/ssl/certs", str(VERSIONS), str(CLONE), sys.prefix):
            words += ["--ro-bind-try", path, path]
        words += ["--bind", str(self.work), str(_WORK), *self._emulate()]
        return [*words, "--die-with-parent", "--chdir", str(directory), "--"]

    def _emulate(self) -> list[str]:
        """Return the mounts that a root of another processor needs for sandboxes.

        Its emulator makes no namespaces, and the system calls are those of this processor. So bubblewrap and the filter
        of system calls are this machine's.
        """
        libraries = f"/lib/{os.uname().machine}-linux-gnu"
        if Path(f"{self.root}{libraries}/libc.so.6").exists():
            return []
        (self.work / "filter").write_bytes(call_filter())
        program = self.work / "bwrap"
        program.write_text(f'#!/bin/sh\nexec 9<{_WORK}/filter\nexec /usr/bin/bwrap "$@"\n', encoding="utf-8")
        program.chmod(0o755)
        words = ["--ro-bind", str(program), "/usr/local/bin/bwrap"]
        for path in ("/usr/bin/bwrap", "/lib64", libraries):
            words += ["--ro-bind", path, path]
        return words


def copy_clone(target: Path) -> None:
    """Copy what git knows of, as a fresh clone has it."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=CLONE, capture_output=True, check=True).stdout
    for name in filter(None, os.fsdecode(names).split("\0")):
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if (CLONE / name).exists():
            shutil.copy2(CLONE / name, path, follow_symlinks=False)


class StepFailed(Exception):
    """A step did not do what it should; the message shows its output."""
