"""``python -m tests.diagnose.corpus.real --artifacts DIR [--only WORD] [--jobs N] [--clean] [--write]``.

DIR holds artifacts as PyPTO's compiler writes them, each with its data. Every recipe is planted in a copy, one
instrument runs, and what it says is compared. Prints a line a bug, and of those that are not found as the recipe says,
what was said. `--clean` looks at the artifacts without any bug first. `--write` puts the table into the page. The exit
status is 1 if anything was not as it should be.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import msgspec
import torch

from pypto_build.diagnose.findings import read_report
from pypto_build.diagnose.why.kept import Link
from tests.diagnose.corpus.real import (
    PatternError,
    Recipe,
    core,
    orchestration,
    plant,
    table,
    traps,
    waits,
    weak,
    wrong,
)

CLASSES = {
    "wrong element": wrong.RECIPES,
    "weak memory": weak.RECIPES,
    "waits": waits.RECIPES,
    "traps": traps.RECIPES,
    "synchronisation within a core": core.RECIPES,
    "orchestration and data": orchestration.RECIPES,
}
_PLATFORM = "a2a3sim"


def _run(tool: str, artifact: Path, options: tuple[str, ...], json: Path | None) -> str:
    """Run an instrument and return its output."""
    words = [sys.executable, "-m", "pypto_build.cli", tool, artifact.name, "-p", _PLATFORM, *options]
    words += [f"JSON={json}"] if json else []
    environment = {
        **os.environ,
        "PYPTO_BUILD_SERVER": "0",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    done = subprocess.run(
        words, cwd=artifact.parent, env=environment, capture_output=True, text=True, errors="replace", timeout=900
    )
    return done.stdout + done.stderr


def _golden(artifact: Path) -> None:
    """Let the artifact as it is say what is right."""
    _run("replay", artifact, (), None)
    for made in artifact.parent.glob(f"build/{_PLATFORM}/{artifact.name}/replays/*/actual/*.pt"):
        (artifact / "data" / "out").mkdir(parents=True, exist_ok=True)
        shutil.copy(made, artifact / "data" / "out" / made.name)


def _prepared(recipe: Recipe, artifacts: Path, directory: Path) -> Path:
    """A copy with its data, before the bug."""
    artifact = directory / recipe.artifact
    shutil.copytree(artifacts / recipe.artifact, artifact)
    for name in recipe.constant:
        path = artifact / "data" / "in" / f"{name}.pt"
        torch.save(torch.ones_like(torch.load(path)), path)
    if recipe.constant or not list((artifact / "data" / "out").glob("*.pt")):
        _golden(artifact)
    elif recipe.seen:
        _run("replay", artifact, (), None)
    return artifact


def look(recipe: Recipe, artifacts: Path) -> list[str]:
    """Plant a bug and run its instrument; what is not as the recipe says, and what the instrument printed."""
    directory = Path(tempfile.mkdtemp())
    try:
        artifact = _prepared(recipe, artifacts, directory)
        plant(recipe, artifact)
        json = directory / "found.json"
        output = _run(recipe.tool, artifact, recipe.options, json)
        if not json.is_file():
            return ["no findings were written", output]
        wrong = _of_why(recipe, artifact, json) if recipe.tool == "why" else _of_findings(recipe, artifact, json)
        return [*wrong, output] if wrong else []
    except PatternError as error:
        return [str(error)]
    except subprocess.TimeoutExpired:
        return ["it did not end within 900 s"]
    finally:
        shutil.rmtree(directory)


def _of_findings(recipe: Recipe, artifact: Path, json: Path) -> list[str]:
    """Return the faults of the findings."""
    findings = read_report(json).findings
    if len(findings) != 1:
        return [f"{len(findings)} findings: {', '.join(f'{f.rule} at {f.position}' for f in findings)}"]
    (one,) = findings
    wrong = [f"the rule is {one.rule}"] if one.rule != recipe.rule else []
    if one.path != recipe.file or not re.search(recipe.at, _line(artifact, one.path, one.line)):
        wrong.append(f"it is at {one.position}: {_line(artifact, one.path, one.line).strip()[:120]}")
    return wrong if recipe.says in "\n".join(one.lines) else [*wrong, f"it does not say {recipe.says!r}"]


def _line(artifact: Path, path: str, line: int) -> str:
    """A line of the artifact; nothing where the finding names none."""
    return (artifact / path).read_text(encoding="utf-8").splitlines()[line - 1] if path and line else ""


def _of_why(recipe: Recipe, artifact: Path, json: Path) -> list[str]:
    """Return the faults of the links that part from the reference."""
    marked = [link for link in _links(msgspec.json.decode(json.read_bytes(), type=Link)) if link.parts]
    if not marked:
        return ["no link parts from the reference"]
    wrong = []
    for cpp, pto in sorted({(link.cpp, link.pto) for link in marked}):
        file, _, line = cpp.rpartition(":")
        if file != recipe.file or not re.search(recipe.at, _line(artifact, file, int(line or 0))):
            wrong.append(f"a link at {cpp} parts")
        module, _, row = pto.rpartition(":")
        if recipe.says not in _line(artifact, module, int(row or 0)):
            wrong.append(f"the module's line is {pto}")
    return wrong


def _links(link: Link) -> Iterator[Link]:
    yield link
    for one in link.of:
        yield from _links(one)


def _clean(artifacts: Path, recipes: list[Recipe]) -> list[Recipe]:
    """One recipe without a bug for each artifact and command, except those that need one to look at."""
    seen = {(r.artifact, r.tool, r.options): r for r in recipes if r.tool not in ("why", "diverge")}
    return [replace(r, name=f"{r.artifact} as it is: {r.command}", edits=(), rule="") for r in seen.values()]


def main(words: list[str] | None = None) -> int:
    """Plant all; say what was found."""
    parser = argparse.ArgumentParser(prog="tests.diagnose.corpus.real")
    parser.add_argument("--artifacts", type=Path, required=True, metavar="DIR")
    parser.add_argument("--only", default="", metavar="WORD", help="bugs whose class or name holds this")
    parser.add_argument("--jobs", type=int, default=1, metavar="N")
    parser.add_argument(
        "--clean", action="store_true", help="the artifacts without bugs, which nothing is to be said of"
    )
    parser.add_argument("--write", action="store_true", help="write the table of the documentation, if all are found")
    options = parser.parse_args(words)
    chosen = [(kind, r) for kind, all_ in CLASSES.items() for r in all_ if options.only in f"{kind}: {r.name}"]
    if options.clean:
        chosen = [("clean", r) for r in _clean(options.artifacts, [r for _, r in chosen])]
    missing = sorted({r.artifact for _, r in chosen if not (options.artifacts / r.artifact).is_dir()})
    if missing:
        parser.error(f"--artifacts {options.artifacts}: there is no {', '.join(missing)}")
    missed = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for (kind, recipe), wrong in zip(
            chosen, pool.map(lambda c: look(c[1], options.artifacts), chosen), strict=True
        ):
            if options.clean and wrong and wrong[0].startswith("0 findings"):
                wrong = []
            missed += bool(wrong)
            print(
                f"{'NOT' if wrong else 'yes'}  {kind}: {recipe.name}",
                *(f"    {w}" for w in wrong),
                sep="\n",
                flush=True,
            )
    print(f"{len(chosen) - missed} of {len(chosen)}")
    if options.write and not missed and not options.only and not options.clean:
        table.write(CLASSES)
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
