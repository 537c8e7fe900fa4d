"""The rules stand on the machinery, not the other way round: of the rules it knows the tables alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import pypto_build.rules
from benchmarks.generated import write_chain
from pypto_build.artifact import ArtifactError, load_artifact, manifest
from pypto_build.artifact.manifest_eval import evaluate
from pypto_build.proof import Store
from pypto_build.rules.machinery.manifests import EvaluatedManifests

_TABLES = {"options", "targets", "variants", "verbs"}
_IMPORTED = re.compile(r"^\s*from pypto_build\.rules\.(\w+)", re.MULTILINE)


def test_the_machinery_knows_no_rule() -> None:
    machinery = Path(pypto_build.rules.__file__).parent / "machinery"
    imported = {path.name: {*_IMPORTED.findall(path.read_text(encoding="utf-8"))} for path in machinery.glob("*.py")}
    wrong = {name: rules for name, found in imported.items() if (rules := found - _TABLES - {"machinery"})}
    assert imported and wrong == {}


def test_large_manifests_are_evaluated_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_chain(tmp_path, 200)
    store, texts = Store(tmp_path / "store"), list[str]()

    def counted(path: Path, text: str) -> dict[str, Any]:
        texts.append(text)
        return evaluate(path, text)

    monkeypatch.setattr(manifest, "evaluate", counted)
    plain = load_artifact(root)
    assert [load_artifact(root, EvaluatedManifests(store)) for _ in range(2)] == [plain, plain]
    assert len(texts) == 2  # once without the store, once with it
    (root / "kernels" / "aiv" / "step_7.cpp").unlink()
    with pytest.raises(ArtifactError, match=r"kernel_config\.py:\d+: KERNELS\[7\]\.source: .* is missing"):
        load_artifact(root, EvaluatedManifests(store))
    text = (root / "kernel_config.py").read_text()
    (root / "kernel_config.py").write_text(text.replace("step_7.cpp", "step_8.cpp"))
    assert load_artifact(root, EvaluatedManifests(store)).kernels[7].source.name == "step_8.cpp"
