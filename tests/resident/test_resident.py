"""Through the resident process a command does what it does without it, and nothing is lost when that goes wrong."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from pypto_build.proof.digests import TICK_S
from tests.resident.desk import SLEEP, SLOW, Desk, is_gone


def test_a_served_command_says_and_does_the_same(resident: Desk) -> None:
    project, artifact = resident.project, str(resident.project.artifact)
    words = {"pass": ("replay", artifact), "usage": ("replay", artifact, "NONSENSE=1"), "lint": ("lint", artifact)}
    served = {name: resident.run(*line) for name, line in words.items()}
    assert served == {name: resident.run(*line, "--no-server") for name, line in words.items()}
    assert {name: status for name, (status, _) in served.items()} == {"pass": 0, "usage": 2, "lint": 0}
    for expression, status in (("3.0f * in[i]", 1), ("broken", 3), ("2.0f * in[i]", 0)):
        project.write_kernel("twice", expression)
        returned, output = resident.run("replay", artifact)
        assert returned == status, output


def test_a_batch_runs_all_of_its_platforms(resident: Desk) -> None:
    """A process of the resident one runs SCons once; a batch runs it for each platform."""
    batch = resident.project.root / "batch.json"
    rows = [{"work_dir": str(resident.project.artifact), "platform": name} for name in ("a2a3sim", "a5sim")]
    batch.write_text(json.dumps(rows))
    status, output = resident.run("replay", "--batch-manifest", str(batch), "SEED=7")
    assert (status, output.count("[RUN] PASS")) == (0, 2), output


def test_directory_environment_and_umask_travel(resident: Desk) -> None:
    beside = resident.project.root / "build_output"
    assert resident.run("replay", "_jit_chain", cwd=beside)[0] == 0
    assert (beside / "build" / "a2a3sim" / "_jit_chain" / "verdict.json").exists()
    status, output = resident.run(
        "replay", ".", f"BUILD_DIR={resident.project.root}/build", cwd=resident.project.artifact
    )
    assert (status, "[RUN] PASS" in output) == (0, True)
    (resident.project.root / "elsewhere").mkdir()
    resident.project.artifact.rename(resident.project.root / "elsewhere" / "_jit_chain")
    assert resident.run("replay", "_jit_chain", PYPTO_PROG_BUILD_DIR="elsewhere")[0] == 0


_ASKS = """
import sys
from pypto_build.client.protocol import ask
from pypto_build.client.socket_address import address, describe_situation, directory
situation = sys.argv[1] or describe_situation()
print("status", ask(address(directory(), situation), situation, ["help", "JIT"]))
print("situation", situation)
"""
_CONTAINED = {
    "privileges": ["setpriv", "--no-new-privs"],
    "mounts": ["unshare", "--mount"],
    "processes": ["unshare", "--pid", "--fork"],
    "users": ["unshare", "--user"],
}


@pytest.mark.parametrize("kind", _CONTAINED)
def test_who_is_contained_is_refused(resident: Desk, kind: str) -> None:
    """Even if it knows what to say: what it asks for would run outside, and outlive it."""
    words = _CONTAINED[kind]
    if shutil.which(words[0]) is None or subprocess.run([*words, "true"], check=False).returncode:
        pytest.skip(f"{words[0]} does not work here")

    def asks(situation: str, *before: str) -> str:
        command = [*before, sys.executable, "-c", _ASKS, situation]
        run = subprocess.run(command, env=resident.environment, stdout=subprocess.PIPE, text=True, check=True)
        return run.stdout

    free = asks("")
    assert "status 0\n" in free, free
    assert "status None\n" in asks(free.partition("situation ")[2].rstrip("\n"), *words)


def test_a_command_is_served_by_the_process_that_stayed(again: Desk) -> None:
    again.project.write_kernel("twice", SLOW, SLEEP)
    with again.start("replay", str(again.project.artifact)) as command:
        child = again.serving()
        command.send_signal(signal.SIGINT)
        output, _ = command.communicate()
    assert command.returncode == 130, output
    assert "Traceback" not in output and is_gone(child)
    assert again.server  # it goes on


def test_a_killed_command_ends_what_worked_for_it(again: Desk) -> None:
    again.project.write_kernel("twice", SLOW, SLEEP)
    with again.start("replay", str(again.project.artifact)) as command:
        child = again.serving()
        command.kill()
        command.communicate()
    assert is_gone(child)


def test_a_crash_costs_time_only(again: Desk) -> None:
    again.project.write_kernel("twice", "(usleep(2'000'000 / 16), 2.0f * in[i])", "#include <unistd.h>\n")
    with again.start("replay", str(again.project.artifact)) as command:
        os.killpg(again.serving(), signal.SIGKILL)
        output, _ = command.communicate()
    assert command.returncode == 0
    assert output.count("pypto-build: the background process ended during the command; the command runs again\n") == 1
    assert "[RUN] PASS" in output


def test_one_that_stands_and_is_killed_is_done_without(again: Desk) -> None:
    for process in again.stands:
        os.kill(process, signal.SIGKILL)
    again.project.write_kernel("twice", "3.0f * in[i]")
    assert again.run("replay", str(again.project.artifact))[0] == 1


def test_what_changes_between_commands_is_seen_by_all_that_stand(resident: Desk) -> None:
    """Edit, undo, an option of the environment, a manifest, data: as without a server, again and again."""
    project, words = resident.project, ("replay", str(resident.project.artifact))
    for _ in range(2):
        assert resident.run(*words)[0] == 0
    tensor = (project.artifact / "data" / "out" / "y.pt").read_bytes()
    statuses = []
    for number in range(6):
        if number % 2 == 0:
            project.write_kernel("twice", "3.0f * in[i]" if number < 4 else "2.0f * in[i]")
        elif number == 1:
            project.write_kernel("twice", "2.0f * in[i]")
        elif number == 3:
            project.write_tensor("out/y", [0.0] * 16)
        else:
            (project.artifact / "data" / "out" / "y.pt").write_bytes(tensor)
        statuses.append(resident.run(*words)[0])
        assert statuses[-1] == resident.run(*words, "--no-server")[0]
    assert statuses == [1, 0, 1, 1, 1, 0]
    assert resident.stands


def test_a_process_that_does_not_answer_is_not_waited_for(resident: Desk) -> None:
    os.kill(resident.server, signal.SIGSTOP)
    try:
        assert resident.run("replay", str(resident.project.artifact))[0] == 0
    finally:
        os.kill(resident.server, signal.SIGCONT)


def test_a_changed_module_ends_it(resident: Desk) -> None:
    process = resident.server
    (resident.modules / "sitecustomize.py").write_text("import builtins\n")
    time.sleep(2 * TICK_S)
    assert resident.run("replay", str(resident.project.artifact))[0] == 0
    assert is_gone(process)


def test_another_situation_has_another_process(resident: Desk) -> None:
    artifact = str(resident.project.artifact)
    assert resident.run("replay", artifact, PYTHONOPTIMIZE="1")[0] == 0
    for _ in range(200):
        if len(notes := list((resident.sockets / "pypto-build").glob("*.pid"))) == 2:
            break
        time.sleep(0.05)
    assert len({note.read_text() for note in notes}) == 2


def test_a_workspace_that_is_another_one_at_the_same_place(again: Desk) -> None:
    """The preforked process is in a directory that has been removed."""
    root = again.project.root
    words = ("replay", str(again.project.artifact))
    copy = root.with_name("copy")
    shutil.copytree(root, copy, symlinks=True)
    shutil.rmtree(root)
    copy.rename(root)
    again.project.write_kernel("twice", "3.0f * in[i]")
    assert [again.run(*words)[0] for _ in range(2)] == [1, 1]
    again.project.write_kernel("twice", "2.0f * in[i]")
    assert [again.run(*words)[0] for _ in range(3)] == [0, 0, 0]
