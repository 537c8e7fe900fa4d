"""The fixtures of simpler's own conftest, for tests that drive a worker themselves, where simpler is not installed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pypto_build.artifact.scene_reader import case_of
from pypto_build.artifact.scenes import CHIP_LEVEL, Scene, SceneCase
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.interop.pytest_flags import flag_value, named_platforms
from pypto_build.interop.pytest_items import Absent
from pypto_build.interop.scene.faults import NeedsSimpler

# Test methods of a scene test's class, besides those of its cases: pytest functions, on a stand-in worker.


class Methods(pytest.Module):
    """The module as pytest collects it, limited to the requested tests. It is imported, which loads PyTorch."""

    def __init__(self, *, selected: Collection[tuple[str, str]], **more: object) -> None:
        super().__init__(**more)  # type: ignore[arg-type]
        self._selected = selected

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Return the functions, by class and name."""
        try:
            classes = [node for node in super().collect() if isinstance(node, pytest.Class)]
        except NeedsSimpler as error:
            reason = f"it uses {error}, which needs simpler"
            return [Absent.from_parent(self, name=f"{scene}::{name}", reason=reason) for scene, name in self._selected]
        return [item for node in classes for item in node.collect() if self._is_selected(node, item)]

    def _is_selected(self, node: pytest.Class, item: object) -> bool:
        return isinstance(item, pytest.Function) and (node.name, item.originalname) in self._selected


def requested_platforms(config: pytest.Config, cases: Iterable[SceneCase]) -> list[str]:
    """Return the platforms that a session requests and that one of the cases can run on."""
    declared = [name for case in cases for name in case.platforms if not is_left_out(config, case, name)]
    requested = named_platforms(config) or [name for name, platform in PLATFORMS.items() if platform.simulated]
    return [name for name in requested if name in declared]


def is_left_out(config: pytest.Config, case: SceneCase, platform: str) -> bool:
    """Return whether `--manual` excludes a case on a platform."""
    mode, manual = flag_value(config, "--manual") or "exclude", platform in case.manual
    return {"include": False, "exclude": manual, "only": not manual}[mode]


def cases_of(scene: type[Any]) -> list[SceneCase]:
    """Return the cases of a class that was imported."""
    return [case_of({key: case[key] for key in ("name", "platforms", "manual") if key in case}) for case in scene.CASES]


def others_of(config: pytest.Config, scene: Scene) -> list[tuple[str, str]]:
    """Return class and name of the test methods that belong to no case, if a case of the class runs."""
    return [(scene.name, name) for name in scene.others] if requested_platforms(config, scene.cases) else []


_NAME = "pypto_build_worker_tests"
_MARKS = (
    "platforms(names): what a test runs on",
    "requires_hardware(platform): it needs a chip",
    "device_count(n): how many chips it needs",
    "runtime(name): the runtime of simpler's that it is for",
    "manual(platforms): it runs when it is asked for",
    "sdma: it needs the DMA engine of a chip",
    "timeout(seconds): how long it may take",
)


class WorkerTests:
    """A pytest plugin: platforms, devices, and reasons to skip."""

    def __init__(self, config: pytest.Config) -> None:
        for mark in _MARKS:
            config.addinivalue_line("markers", mark)
        self._config = config

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make one test for each requested simulated platform that the test supports."""
        if "st_platform" not in metafunc.fixturenames:
            return
        if hasattr(metafunc.cls, "_st_runtime"):
            metafunc.parametrize("st_platform", requested_platforms(self._config, cases_of(metafunc.cls)))
        else:
            mark = metafunc.definition.get_closest_marker("platforms")
            declared = list(mark.args[0]) if mark else list(PLATFORMS)
            requested = named_platforms(self._config) or [name for name in declared if PLATFORMS[name].simulated]
            metafunc.parametrize("st_platform", [name for name in declared if name in requested])

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Skip tests that are manual, or need hardware or several chips."""
        for item in items:
            if reason := self._reason(item):
                item.add_marker(pytest.mark.skip(reason=reason))

    def _reason(self, item: pytest.Item) -> str:
        if not isinstance(item, pytest.Function):
            return ""  # a case of a scene test, which knows by itself
        if item.get_closest_marker("requires_hardware") is not None:
            return "needs hardware"
        mark, mode = item.get_closest_marker("manual"), flag_value(self._config, "--manual") or "exclude"
        platform = getattr(item, "callspec", None) and item.callspec.params.get("st_platform")
        manual = mark is not None and (not mark.args or platform in mark.args[0])
        if mode == "only" and not manual:
            return "not manual"
        return "manual; --manual include runs it" if manual and mode == "exclude" else ""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[Any]:
        """Skip a test whose setup needs simpler itself."""
        return (yield from _skipped_where_it_needs_simpler())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[Any]:
        """Skip a test that needs simpler itself."""
        return (yield from _skipped_where_it_needs_simpler())

    @pytest.fixture
    def st_device_ids(self, request: pytest.FixtureRequest) -> list[int]:
        """Return the devices of a test, as many as it requests."""
        mark = request.node.get_closest_marker("device_count")
        return list(range(int(mark.args[0]) if mark else 1))

    @pytest.fixture
    def st_worker(self, st_platform: str, request: pytest.FixtureRequest) -> Any:
        """Return a worker for the level and runtime of the test's class; for one chip if there is no class."""
        from pypto_build.interop.scene.stand_ins import Worker

        mark = request.node.get_closest_marker("runtime")
        runtime = getattr(request.cls, "_st_runtime", mark.args[0] if mark else "")
        level = int(getattr(request.cls, "_st_level", CHIP_LEVEL))
        chips = [int(case.get("config", {}).get("device_count", 1)) for case in getattr(request.cls, "CASES", ())]
        devices = {"device_ids": range(max([1, *chips]))} if level != CHIP_LEVEL else {}
        return Worker(level=level, platform=st_platform, runtime=runtime, **devices)


def _skipped_where_it_needs_simpler() -> Iterator[Any]:
    try:
        return (yield)
    except NeedsSimpler as error:
        pytest.skip(f"it uses {error}, which needs simpler")


def stand_in_for(path: Path, config: pytest.Config) -> None:
    """Make stand-ins available in this process for a test that drives a worker of simpler's itself."""
    if not config.pluginmanager.has_plugin(_NAME):
        from pypto_build.interop.scene.loading import stand_in

        stand_in(path)
        config.pluginmanager.register(WorkerTests(config), _NAME)
