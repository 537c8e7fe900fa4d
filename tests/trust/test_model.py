"""Random steps, each replay of which says what a fresh build says; ``python -m tests.trust`` does many more."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from tests.trust.commands import goes_on, wait_for
from tests.trust.machine import do_random_steps
from tests.trust.model import attempt, read_script, themes_of
from tests.trust.space import PASS, Outcome, Space, tensor_bytes
from tests.trust.tested import Tested, tree_digest


@pytest.mark.parametrize("theme", themes_of("chain"))
def test_random_steps(tested: Tested, theme: int) -> None:
    do_random_steps(tested, theme)


def test_the_oracle_knows_right_from_wrong(chain: Space, tmp_path: Path) -> None:
    assert chain.oracle(tmp_path / "o").outcome == Outcome(PASS, "pass", (("y", "pass", 0, "0.0"),))
    chain.kernel("twice", "3.0f * in[i]")
    assert chain.oracle(tmp_path / "o").outcome == Outcome(1, "mismatch", (("y", "mismatch", 15, "15.0"),))
    assert not (tmp_path / "o").exists()


def test_the_environment_goes_to_other_processes(tested: Tested) -> None:
    """As each chunk of ``python -m tests.trust`` gets it."""
    assert pickle.loads(pickle.dumps(tested)) == tested


def test_a_script_is_done_step_by_step(tested: Tested) -> None:
    edit = '["edit", {"file": "twice", "variant": "wrong"}]'
    kind, steps = read_script(f'["world", {{"kind": "chain"}}]\n["replay", {{}}]\n{edit}\n["replay", {{}}]\n')
    fault = attempt(tested, kind, steps)
    assert fault is None, fault


def test_digest_of_a_tree_sees_links_and_modes(tmp_path: Path) -> None:
    seen = set()
    (tmp_path / "a").write_bytes(tensor_bytes([1.0]))
    seen.add(tree_digest(tmp_path))
    (tmp_path / "b").symlink_to("a")
    seen.add(tree_digest(tmp_path))
    (tmp_path / "a").write_bytes(tensor_bytes([2.0]))
    seen.add(tree_digest(tmp_path))
    (tmp_path / "a").chmod(0o700)
    seen.add(tree_digest(tmp_path))
    assert len(seen) == 4
    assert tree_digest(tmp_path, ("a", "b")) == tree_digest(tmp_path, ("a", "b"))


def test_nothing_outlives_the_tests(tmp_path: Path) -> None:
    """Not even where the process that runs them is killed."""
    touched = tmp_path / "told"  # touched when it is known to those who would end it
    code = "from tests.trust.commands import Command; from pathlib import Path; import os, time\n"
    shell = f"echo $$ > {tmp_path}/started; sleep 1000"
    code += f"Command(['sh', '-c', {shell!r}], Path('/'), os.environ)\nPath({str(touched)!r}).touch()\ntime.sleep(1000)"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[2])
    file = tmp_path / "started"
    assert wait_for(lambda: touched.exists() and file.exists() and file.read_text().strip())
    process.kill()
    process.wait()
    assert wait_for(lambda: not goes_on(int(file.read_text())))
