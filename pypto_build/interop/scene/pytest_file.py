"""Collects a scene test's file in pytest without simpler's conftest: an item for each case and platform."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pytest

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.scenes import Scene, Scenes, matches
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.facts.run_options import EMBEDDED
from pypto_build.interop.pytest_flags import PASSED_ON, flag_value, listed, named_platforms
from pypto_build.interop.pytest_items import Absent, Failed, Item, SceneCase
from pypto_build.interop.scene.fixtures import Methods, is_left_out, others_of, stand_in_for
from pypto_build.interop.scene.outcomes import (
    FAILED,
    SKIPPED,
    CaseResult,
    CasesRun,
    describe_file,
    describing,
)
from pypto_build.toolchain.forked import ForkedTools

_DESCRIBING = pytest.StashKey[ForkedTools]()


def _describing(config: pytest.Config) -> ForkedTools:
    """Return the prefork server that reads the declarations of files; a session has one."""
    if _DESCRIBING not in config.stash:
        config.stash[_DESCRIBING] = describing()
        config.add_cleanup(config.stash[_DESCRIBING].close)
    return config.stash[_DESCRIBING]


class SceneFile(pytest.File):
    """A file of scene tests. When the first of its cases runs, all of them run together in one build."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Return one item for each case and platform; a case that cannot run here is skipped with the reason."""
        try:
            scenes = describe_file(self.path, _describing(self.config))
        except ArtifactError as error:
            raise self.CollectError(str(error)) from None
        if scenes.reason:
            yield Absent.from_parent(self, name=self.path.stem, reason=scenes.reason)
        self._check_selectors(scenes)
        for scene in scenes.classes:
            yield from self._of_class(scene)
        yield from self._methods(scenes)

    def _methods(self, scenes: Scenes) -> Iterable[pytest.Collector | pytest.Item]:
        """Return test methods that belong to no case; they are functions like any other."""
        selected = list[tuple[str, str]]()
        for scene in scenes.classes:
            others = others_of(self.config, scene)
            if not scene.reason:
                selected += others
                continue
            for _, name in others:
                yield Absent.from_parent(self, name=f"{scene.name}::{name}", reason=scene.reason)
        if selected:
            stand_in_for(self.path, self.config)
            yield Methods.from_parent(self, path=self.path, selected=selected)

    def _check_selectors(self, scenes: Scenes) -> None:
        for selector in listed(self.config, "--case"):
            names = [f"{scene.name}::{case.name}" for scene in scenes.classes for case in scene.cases]
            if names and not any(matches(selector, *name.split("::")) for name in names):
                raise pytest.UsageError(
                    f"--case {selector}: no such case in {self.path}; its cases are {', '.join(names)}"
                )

    def _of_class(self, scene: Scene) -> Iterable[pytest.Item]:
        chosen = listed(self.config, "--case")
        for case in scene.cases:
            if chosen and not any(matches(selector, scene.name, case.name) for selector in chosen):
                continue
            label = f"{scene.name}::{case.name}"
            platforms = named_platforms(self.config) or [name for name in case.platforms if PLATFORMS[name].simulated]
            for name in platforms or case.platforms[:1]:
                if name not in case.platforms or is_left_out(self.config, case, name):
                    continue
                if self._by_simpler(name):
                    yield SceneCase.from_parent(self, name=f"{label}[{name}]", platform=PLATFORMS[name], case=label)
                elif reason := scene.why_not(case, name):
                    yield Absent.from_parent(self, name=f"{label}[{name}]", reason=reason)
                else:
                    yield SceneItem.from_parent(self, name=f"{label}[{name}]", platform=name, label=label)

    def _by_simpler(self, platform: str) -> bool:
        """Return whether simpler runs the cases on a platform. Raises a usage error for data that they do not take."""
        runtime = flag_value(self.config, "--runtime")
        if not PLATFORMS[platform].simulated or runtime not in (None, EMBEDDED):
            return True
        if flag_value(self.config, "--golden-data"):
            raise pytest.UsageError(
                "--golden-data: is not supported for scene tests, which generate their data; use it "
                "with a kernel_config.py"
            )
        return False

    def words(self) -> list[str]:
        """Return the flags of a replay that correspond to those of this session."""
        words = ["MANUAL=include"]
        if (rounds := flag_value(self.config, "--rounds")) and str(rounds) != "1":
            words += ["--rounds", str(rounds)]
        words += ["--skip-golden"] if flag_value(self.config, "--skip-golden") else []
        words += (
            ["--sanitizer", flag_value(self.config, "--sanitizer")] if flag_value(self.config, "--sanitizer") else []
        )
        for option in PASSED_ON:
            if value := flag_value(self.config, option.scene_flags[0]):
                words.append(f"{option.name}={1 if value is True else value}")
        return words


class SceneItem(Item):
    """One case on one platform; it runs in one build with all others of the session."""

    def __init__(self, *, platform: str, label: str, **more: object) -> None:
        super().__init__(**more)  # type: ignore[arg-type]
        self.platform, self.label = platform, label

    @property
    def origin(self) -> str:
        """Return FILE::CLASS::CASE."""
        return f"{self.path}::{self.label}"

    def runtest(self) -> None:
        """Run the case."""
        result = self.config.stash.setdefault(_RUNS, _Runs()).result(self)
        if result.word == SKIPPED:
            pytest.skip(result.message)
        if result.word == FAILED:
            self.add_report_section("call", "run", result.printed)
            raise Failed(result.message)


class _Runs:
    """The builds of a session: one for each platform. A process of pytest-xdist has one for each file."""

    def __init__(self) -> None:
        self._by_origin: dict[tuple[str, str], CasesRun] = {}
        self._open: set[tuple[str, str]] = set()  # cases whose result has not been read

    def result(self, item: SceneItem) -> CaseResult:
        """Return the result of a case."""
        if (item.platform, item.origin) not in self._by_origin:
            self._start(item)
        result = self._by_origin[item.platform, item.origin].result(item.origin)
        self._open.discard((item.platform, item.origin))
        return result

    def _end(self, run: CasesRun) -> None:
        """End a build, also in the middle if a session ends before its last case."""
        if not any(self._by_origin[key] is run for key in self._open):
            run.wait()
        run.close()

    def _start(self, first: SceneItem) -> None:
        """Run all cases of a platform that this session requests."""
        assert isinstance(first.parent, SceneFile)
        distributed = hasattr(first.config, "workerinput")
        origins = [
            item.origin
            for item in first.session.items
            if isinstance(item, SceneItem)
            and item.platform == first.platform
            and (item.parent is first.parent or not distributed)
        ]
        run = CasesRun(list(dict.fromkeys(origins)) or [first.origin], first.platform, first.parent.words())
        first.config.add_cleanup(partial(self._end, run))
        mine = {(first.platform, origin): run for origin in [*origins, first.origin]}
        self._by_origin |= mine
        self._open |= mine.keys()


_RUNS = pytest.StashKey[_Runs]()


def file_of(parent: pytest.Collector, path: Path) -> SceneFile:
    """Return the collector of a file."""
    scene_file: SceneFile = SceneFile.from_parent(parent, path=path)
    return scene_file
