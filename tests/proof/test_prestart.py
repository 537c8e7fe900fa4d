"""A process that is started before its turn does what one started in time does, and nothing before it is told to."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pypto_build.proof import Action, OutputDir, Store
from pypto_build.proof.digests import TICK_S
from pypto_build.proof.witness import library
from pypto_build.rules.machinery.actions import WaitingTool
from pypto_build.toolchain.host import find_compiler

_TOOL = """import os, sys
from pypto_build.turn import await_turn
import extra
os.nice(1)  # which can be seen from outside, and is no file
if not await_turn():
    sys.exit(9)
with open(sys.argv[1]) as source, open(sys.argv[2], "w") as target:
    target.write(extra.WORD + source.read())
"""


class Rig:
    """A tool of ours that imports a module before its turn and reads its input after it."""

    def __init__(self, root: Path, store: Store) -> None:
        self.root, self.out = root, root / "out"
        self.out.mkdir()
        watcher = library(find_compiler().path, root / "witness", os.environ)
        self.output_dir = OutputDir(self.out, store, {"root": root}, watcher)
        self.spawned: list[list[str]] = []
        self.write("tool.py", _TOOL)
        self.write("extra.py", "WORD = 'first '\n")
        self.write("data/source", "text")

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        time.sleep(2 * TICK_S)

    def prestart(self) -> None:
        """Start it before its turn, and wait until it has loaded its module, or has ended."""
        tools: list[WaitingTool] = []

        def start(command: list[str], environment: dict[str, str]) -> WaitingTool:
            tools.append(WaitingTool(command, environment))
            return tools[0]

        self.output_dir.prestart(self.action, start)
        process, deadline = tools[0]._process, time.monotonic() + 60
        before = os.getpriority(os.PRIO_PROCESS, 0)
        while time.monotonic() < deadline and _stat(process.pid)[0] != "Z":
            if os.getpriority(os.PRIO_PROCESS, process.pid) != before:
                break
            time.sleep(0.01)

    @property
    def action(self) -> Action:
        source, target = str(self.root / "data" / "source"), self.out / "built"
        words = (sys.executable, str(self.root / "tool.py"), source, f"{target}.tmp")
        package = Path(__file__).resolve().parents[2]
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"}
        return Action("built", words, (source,), ("built",), environment=environment)

    def spawn(self, command: list[str], environment: dict[str, str]) -> tuple[int, str]:
        self.spawned.append(command)
        return subprocess.run(command, env=environment, check=False).returncode, ""

    def perform(self) -> str:
        return self.output_dir.perform(self.action, self.spawn, tuple).how

    @property
    def built(self) -> str:
        return (self.out / "built").read_text()

    @property
    def left(self) -> list[str]:
        self.output_dir.close()
        return sorted(path.name for path in self.out.glob(".work.*"))


def _stat(process: int) -> list[str]:
    """The state of a process that is not waited for yet, and what follows it there."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path, Store(tmp_path / "store"))


def test_what_is_started_before_its_turn_is_used_and_recorded(rig: Rig) -> None:
    rig.output_dir.prestart(rig.action, WaitingTool)
    assert (rig.perform(), rig.built, rig.spawned, rig.left) == ("built", "first text", [], [])
    assert rig.perform() == "kept"


def test_it_reads_its_input_when_its_turn_comes(rig: Rig) -> None:
    rig.prestart()
    rig.write("data/source", "other")
    assert (rig.perform(), rig.built) == ("built", "first other")


def test_what_it_looked_for_before_it_was_there_has_not_changed(rig: Rig) -> None:
    rig.write("extra.py", "import os, sys\nWORD = f'found {os.path.exists(sys.argv[1])} '\n")
    (rig.root / "data" / "source").unlink()
    rig.prestart()
    rig.write("data/source", "text")
    assert (rig.perform(), rig.built, rig.spawned) == ("built", "found False text", [])


def test_a_module_that_changes_after_it_was_loaded_is_seen(rig: Rig) -> None:
    rig.prestart()
    rig.write("extra.py", "WORD = 'second '\n")
    assert (rig.perform(), rig.built) == ("built", "second text")
    assert len(rig.spawned) == 1  # what the waiting one made was not taken


def test_one_that_is_gone_is_replaced(rig: Rig) -> None:
    rig.write("extra.py", "import os\nWORD = 'x '\nif 'PYPTO_BUILD_TURN' in os.environ: os._exit(1)\n")
    rig.prestart()
    assert (rig.perform(), rig.built, len(rig.spawned)) == ("built", "x text", 1)


def test_one_that_nobody_needs_ends(rig: Rig) -> None:
    processes: list[WaitingTool] = []

    def start(command: list[str], environment: dict[str, str]) -> WaitingTool:
        processes.append(WaitingTool(command, environment))
        return processes[0]

    rig.output_dir.prestart(rig.action, start)
    rig.output_dir.close()
    assert (processes[0].status, (rig.out / "built").exists(), rig.left) == (9, False, [])


def test_another_action_of_the_same_name_starts_its_own(rig: Rig) -> None:
    other = Action(rig.action.name, ("/bin/false",), (), outputs=("built",), environment=rig.action.environment)
    rig.output_dir.prestart(other, WaitingTool)
    assert (rig.perform(), rig.built, len(rig.spawned)) == ("built", "first text", 1)
    rig.output_dir.close()
