"""Builds wheel and source archive, and installs them as users do: without a compiler, twice, newer, older.

    python -m tests.machines.wheels [--python PATH] [--keep DIR]

Prints a line a step; exit status 1 if one does not do what it should. The second revision differs from
the clone in its version and in a text of the runtime, by which the runtime that is used is recognized.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from tests.machines.machine import CLONE, Machine, StepFailed, copy_clone
from tests.machines.steps import ARTIFACT

_TEXT = "The embedded runtime of pypto-build"
_VERSIONS = {"0.1.0": _TEXT, "0.1.1": "Another runtime of pypto-build"}
_PASS = "[RUN] PASS"
_BUILDS = "build the embedded runtime"


class Bench:
    """A directory with clones, wheels, an environment and a home, and the commands that are typed there."""

    def __init__(self, work: Path, python: str) -> None:
        """Start with nothing."""
        self.work, self.python = work, python
        self.machine = Machine(None, work)

    def call(self, *words: str, status: int = 0, **environment: str) -> str:
        """Run a command; its output. Raises `StepFailed` for another exit status."""
        self.machine.environment = environment
        done, output = self.machine.run(words, self.work)
        if done != status:
            raise StepFailed(f"{' '.join(words)}: exit status {done}, not {status}\n{output}")
        return output

    def environment(self, name: str) -> Path:
        """Make an environment, where there is none yet; the directory of its programs."""
        programs = self.work / name / "bin"
        if not programs.exists():
            self.call(self.python, "-m", "venv", str(self.work / name))
            if name == "builder":
                self.call(str(programs / "pip"), "install", "-q", "build")
        return programs

    def install(self, wheel: Path, *options: str) -> None:
        """Install a wheel with the dependencies that the clone's constraints name."""
        constraints = str(CLONE / "constraints.txt")
        self.call(str(self.environment("venv") / "pip"), "install", "-q", "-c", constraints, *options, str(wheel))

    def replay(self, status: int = 0, **environment: str) -> str:
        """Replay an artifact; the output."""
        artifact = str(CLONE / "examples" / "artifacts" / ARTIFACT)
        words = (str(self.work / "venv/bin/pypto-build"), "replay", artifact, f"BUILD_DIR={self.work / 'out'}")
        return self.call(*words, status=status, **environment)

    def wheel(self, version: str, *options: str) -> Path:
        """Build a revision; its wheel."""
        clone, target = self.work / version, self.work / "dist" / version
        if not clone.exists():
            copy_clone(clone)
            self._edit(clone / "pypto_build/__init__.py", '"0.1.0"', f'"{version}"')
            self._edit(clone / "pypto_build/runtime/src/binding/binding.cpp", _TEXT, _VERSIONS[version])
        if not target.exists():
            builder = str(self.environment("builder") / "python")
            self.call(builder, "-m", "build", *options, "-o", str(target), str(clone))
        (wheel,) = target.glob("*.whl")
        return wheel

    @staticmethod
    def _edit(path: Path, old: str, new: str) -> None:
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, path
        path.write_text(text.replace(old, new), encoding="utf-8")


def expect(condition: bool, what: str, output: str = "") -> None:
    """Raise `StepFailed` where something does not hold."""
    if not condition:
        raise StepFailed(f"{what}\n{output}")


def steps(bench: Bench) -> dict[str, Callable[[], None]]:
    """Return the steps by what they show, in their order."""
    wheels: dict[str, Path] = {}

    def build_first() -> None:
        wheels["0.1.0"] = bench.wheel("0.1.0")  # the wheel is built from the source archive
        names = zipfile.ZipFile(wheels["0.1.0"]).namelist()
        expect(platform.machine() in wheels["0.1.0"].name, f"{wheels['0.1.0'].name} is not of this machine")
        expect(any(name.startswith("pypto_build/shipped/content/") for name in names), "the wheel has no runtime")

    def build_second() -> None:
        wheels["0.1.1"] = bench.wheel("0.1.1", "--wheel")

    def without_compiler() -> None:
        nothing = bench.work / "nothing"
        nothing.mkdir(exist_ok=True)
        bench.install(wheels["0.1.0"])
        output = bench.replay(2, PATH=str(nothing))
        expect("no C++ compiler on PATH" in output and "Traceback" not in output, "without a compiler", output)

    def used(version: str) -> Callable[[], None]:
        def check() -> None:
            output = bench.replay()
            expect(_PASS in output, "no pass", output)
            shutil.rmtree(bench.work / "home", ignore_errors=True)  # and nothing that it could be taken from
            shutil.rmtree(bench.work / "out", ignore_errors=True)
            output = bench.replay()
            expect(
                _PASS in output and _BUILDS not in output, "the runtime that came with the wheel is not used", output
            )
            (module,) = (bench.work / "home/.cache/pypto-build/runtime").glob("*/_embedded*.so")
            expect(_VERSIONS[version].encode() in module.read_bytes(), f"{module} is not that of {version}")

        return check

    return {
        "sdist, and a wheel from it": build_first,
        "wheel of another revision": build_second,
        "installed without a compiler": without_compiler,
        "first kernel, with a compiler": used("0.1.0"),
        "installed twice": lambda: bench.install(wheels["0.1.0"], "--force-reinstall", "--no-deps"),
        "replayed": used("0.1.0"),
        "upgraded": lambda: bench.install(wheels["0.1.1"]),
        "replayed by the new one": used("0.1.1"),
        "downgraded": lambda: bench.install(wheels["0.1.0"]),
        "replayed by the old one": used("0.1.0"),
    }


def main() -> int:
    """Do all steps."""
    parser = argparse.ArgumentParser(prog="python -m tests.machines.wheels", description=main.__doc__)
    parser.add_argument("--python", default=sys.executable, metavar="PATH", help="the interpreter of builder and user")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="work here, and leave it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pypto-wheels-") as scratch:
        work = (options.keep or Path(scratch)).absolute()
        work.mkdir(parents=True, exist_ok=True)
        for name, step in steps(Bench(work, options.python)).items():
            try:
                step()
            except StepFailed as error:
                print(f"{name}: FAIL  {error}", flush=True)
                return 1
            print(f"{name}: ok", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
