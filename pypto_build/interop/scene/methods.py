"""Test methods of a scene test's class, besides those of its cases: pytest functions, on a stand-in worker."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest

from pypto_build.artifact.scene_reader import case_of
from pypto_build.artifact.scenes import Scene, SceneCase
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.interop.items import Absent
from pypto_build.interop.pytest_flags import given, named_platforms
from pypto_build.interop.scene.faults import NeedsSimpler


class Methods(pytest.Module):
    """The module as pytest collects it, limited to the requested tests. It is imported, which loads PyTorch."""

    def __init__(self, *, wanted: Collection[tuple[str, str]], **more: object) -> None:
        super().__init__(**more)  # type: ignore[arg-type]
        self._wanted = wanted

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Return the functions, by class and name."""
        try:
            found = [node for node in super().collect() if isinstance(node, pytest.Class)]
        except NeedsSimpler as error:
            reason = f"it uses {error}, which needs simpler"
            return [Absent.from_parent(self, name=f"{scene}::{name}", reason=reason) for scene, name in self._wanted]
        return [item for node in found for item in node.collect() if self._is_wanted(node, item)]

    def _is_wanted(self, node: pytest.Class, item: object) -> bool:
        return isinstance(item, pytest.Function) and (node.name, item.originalname) in self._wanted


def asked_platforms(config: pytest.Config, cases: Iterable[SceneCase]) -> list[str]:
    """Return the platforms that a session requests and that one of the cases can run on."""
    known = [name for case in cases for name in case.platforms if not is_left_out(config, case, name)]
    asked = named_platforms(config) or [name for name, platform in PLATFORMS.items() if platform.simulated]
    return [name for name in asked if name in known]


def is_left_out(config: pytest.Config, case: SceneCase, platform: str) -> bool:
    """Return whether `--manual` excludes a case on a platform."""
    mode, manual = given(config, "--manual") or "exclude", platform in case.manual
    return {"include": False, "exclude": manual, "only": not manual}[mode]


def cases_of(scene: type[Any]) -> list[SceneCase]:
    """Return the cases of a class that was imported."""
    return [case_of({key: case[key] for key in ("name", "platforms", "manual") if key in case}) for case in scene.CASES]


def others_of(config: pytest.Config, scene: Scene) -> list[tuple[str, str]]:
    """Return class and name of the test methods that belong to no case, if a case of the class runs."""
    return [(scene.name, name) for name in scene.others] if asked_platforms(config, scene.cases) else []
