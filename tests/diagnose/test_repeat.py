"""The options of a run that tools pass on are all there, and come back as they were given."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from pypto_build.diagnose.repeat import PASSED_ON, Repeat, add_passed_on, written_options
from pypto_build.facts.options import OPTIONS
from pypto_build.interop import run
from pypto_build.rules.targets import TARGETS


def test_every_option_of_a_run_is_passed_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--help"]) == 0
    flags = set(re.findall(r"^  (--[a-z-]+)", capsys.readouterr().out, re.MULTILINE))
    not_of_the_user = {"--platform", "--build-dir", "--embedded", "--binaries", "--results", "--threads", "--memory"}
    not_of_the_user |= {
        "--golden",
        "--verbose",
        "--requested",
        "--unproven",
        "--chip",
        "--checked",
    }  # of tests, of how it is told, of programs
    assert flags - not_of_the_user - {"--comparator", "--scalar"} == set(PASSED_ON.values())
    assert PASSED_ON.keys() <= OPTIONS.keys()


def test_options_come_back_as_written() -> None:
    parser = argparse.ArgumentParser()
    add_passed_on(parser)
    words = ["--rtol=1e-03", "--strict", "--data", "/d", "--dump-select", "add:0,mul", "--log-level", "v3"]
    repeat = written_options(words)
    assert repeat.assignments == ("DATA=/d", "RTOL=1e-03", "DUMP_ARGS=add:0,mul", "LOG_LEVEL=v3", "STRICT=1")
    assert repeat.scons("replay", Path("/a b"), "a5sim").startswith("scons replay 'JIT=/a b' PLATFORM=a5sim DATA=/d ")
    assert parser.parse_args([*repeat.flags]) == parser.parse_args(words)


@pytest.mark.parametrize("verb", ["replay", "hazards", "diverge", "dump", "pack"])
def test_a_command_has_the_options_that_its_target_takes(verb: str) -> None:
    everything = Repeat(tuple(f"{name}=1" for name in PASSED_ON), ())
    words = everything.scons(verb, Path("a"), "a2a3sim").split()[4:]
    names = {word.partition("=")[0] for word in words}
    of_simpler = {"SIMPLER", "PTO_ISA"}  # which hazards and diverge have no use for
    assert names | of_simpler == PASSED_ON.keys() & TARGETS[verb].options | of_simpler
