"""Replays without a golden (7): unchecked is not a pass."""

from __future__ import annotations

import re
import shutil

import pytest

from tests.trust.judged import passes
from tests.trust.space import PASS, UNCHECKED, Space

DECLARED = """from pypto_build.rules import pypto

env = Environment(tools=[pypto])
env.ReplayTest(name="declared", artifact="build_output/_jit_chain", platform="a2a3sim")
"""


def says_pass(output: str) -> bool:
    """Return whether a log says that something passed."""
    return bool(re.search(r"^\[RUN\] PASS", output, re.MULTILINE))


@pytest.mark.parametrize("target", ["declared", "test"])
@pytest.mark.parametrize("before", [True, False], ids=["after a pass", "at first"])
def test_7_declared_test_without_golden(chain: Space, target: str, before: bool) -> None:
    chain.write("SConstruct", DECLARED)
    if before:
        done = chain.scons(target)
        assert done.status == 0 and says_pass(done.output), done
    shutil.rmtree(chain.artifact / "data" / "out")
    for _ in range(2):
        done = chain.scons(target)
        assert done.status != 0, f"nothing was compared\n{done}"
        assert not says_pass(done.output), done
    chain.tensor("out/y.pt", [2.0 * i + 1.0 for i in range(16)])
    done = chain.scons(target)
    assert done.status == 0 and says_pass(done.output), done


@pytest.mark.parametrize("before", [True, False], ids=["after a pass", "at first"])
def test_7_replay_without_golden(chain: Space, before: bool) -> None:
    if before:
        passes(chain)
    shutil.rmtree(chain.artifact / "data" / "out")
    for _ in range(2):
        done = chain.run("replay")
        assert done.status == UNCHECKED, done
        assert re.search(r"^\[RUN\] UNCHECKED", done.output, re.MULTILINE), done
        assert not says_pass(done.output), done
        assert chain.verdict()["status"] == "unchecked"


def test_7_replay_without_golden_where_that_is_allowed(chain: Space) -> None:
    shutil.rmtree(chain.artifact / "data" / "out")
    for _ in range(2):
        done = chain.run("replay", "ALLOW_UNCHECKED=1")
        assert done.status == PASS, done
        assert re.search(r"^\[RUN\] UNCHECKED", done.output, re.MULTILINE), done
        assert not says_pass(done.output), done
    assert chain.run("replay").status == UNCHECKED


def test_7_scons_without_golden(chain: Space) -> None:
    shutil.rmtree(chain.artifact / "data" / "out")
    for _ in range(2):
        done = chain.scons("replay", f"JIT={chain.name}")
        assert done.status != 0 and not says_pass(done.output), done
        assert re.search(r"^\[RUN\] UNCHECKED", done.output, re.MULTILINE), done


def test_7_data_without_golden_after_a_pass_on_other_data(chain: Space) -> None:
    """The data that DATA= names, without any golden, after a pass on the artifact's own."""
    passes(chain)
    shutil.copytree(chain.artifact / "data" / "in", chain.root / "more" / "in")
    done = chain.run("replay", f"DATA={chain.root}/more")
    assert done.status == UNCHECKED and not says_pass(done.output), done
    assert passes(chain).cached


# And besides
