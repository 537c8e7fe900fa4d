"""The table of a run's options holds for those who cannot read it: the runtime's C++ above all."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

import pypto_build.runtime
from pypto_build.facts.options import OPTIONS
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.facts.run_options import EMBEDDED, RUN_OPTIONS, SETTINGS, SIMPLER
from pypto_build.interop import run
from pypto_build.replay import cli
from pypto_build.rules.options import OptionError
from pypto_build.rules.targets import TARGETS, check_taken, meanings

_SOURCES = Path(pypto_build.runtime.__file__).parent / "src"
# Fields of Settings that options set together with another: an order of tasks, what stands for kernels, a buffer.
_BESIDE = {"task_order", "hook", "limits", "report_bytes", "flight_bytes", "board_bytes"}


def test_the_runtime_knows_the_settings_by_name_type_and_default(embedded: ModuleType) -> None:
    def told(value: object) -> tuple[type, object]:
        return (tuple, tuple(value)) if isinstance(value, (list, tuple)) else (type(value), value)

    theirs = {name: told(value) for name, value in embedded.OPTIONS.items()}
    assert theirs == {name: told(setting.default) for name, setting in SETTINGS.items()}


def test_no_setting_of_the_runtime_is_without_an_option() -> None:
    header = next(_SOURCES.rglob("settings.h")).read_text(encoding="utf-8")
    body = header.partition("struct Settings {")[2].partition("\n};")[0]
    fields = set(re.findall(r"^    [\w:<>]+ \*?(\w+)(?: = [^;]+)?;", body, re.MULTILINE))
    assert fields > _BESIDE
    assert fields - _BESIDE <= SETTINGS.keys()


def test_the_runtime_knows_the_platforms(embedded: ModuleType) -> None:
    for name in PLATFORMS:
        embedded.Runtime(name)
    with pytest.raises(embedded.RuntimeFault):
        embedded.Runtime("a9")


def test_each_flag_is_of_one_option() -> None:
    for flags in (
        [option.flag for option in RUN_OPTIONS.values() if option.flag],
        [flag for option in OPTIONS.values() for flag in option.flags],
        [option.setting.name for option in RUN_OPTIONS.values() if option.setting],
    ):
        assert [flag for flag, times in Counter(flags).items() if times > 1] == []


def test_the_tools_that_run_take_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    ours = {option.flag for option in RUN_OPTIONS.values() if option.flag and EMBEDDED in option.runtimes}
    assert ours <= set(re.findall(r"--[a-z-]+", cli.parser().format_help()))
    assert run.main(["--help"]) == 0
    simplers = {option.flag for option in RUN_OPTIONS.values() if option.flag and SIMPLER in option.runtimes}
    assert simplers <= set(re.findall(r"--[a-z-]+", capsys.readouterr().out))


def test_the_verbs_of_the_table_exist_and_take_it() -> None:
    for name, option in RUN_OPTIONS.items():
        assert [verb for verb in option.verbs if name not in TARGETS[verb].options] == []


def test_an_option_means_what_its_verb_says() -> None:
    assert OPTIONS["AT"].doc_for("step") == "where to start, as 69, TADD#4 or v17"
    assert meanings("TASK").keys() == {"dump, deps", "step, debug", "extract"}
    check_taken({"EXPORT": "html"}, ["step"])
    check_taken({"EXPORT": "html"}, ["deps", "dump"])  # one of them takes it
    with pytest.raises(OptionError, match=r"^EXPORT=dot: 'scons step' does not take this value; use one of html$"):
        check_taken({"EXPORT": "dot"}, ["step"])
