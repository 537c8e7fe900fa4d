"""The predicted cost of a module's line: what `scons speed` computed for the instruction that was generated from it."""

from __future__ import annotations

from pathlib import Path

from pypto_build.artifact import ArtifactError
from pypto_build.diagnose.findings import state_of
from pypto_build.diagnose.origin import kernel_text
from pypto_build.editor.symbols import kernel_files
from pypto_build.pto.live.module import LiveFunction
from pypto_build.pto.live.pairs import pair


def cost_text(module: Path, function: LiveFunction, line: int) -> str:
    """Return the cost of a line, which counts from 0; empty without a prediction of the artifact as it is now."""
    lines = [
        (file, at + 1)
        for file in kernel_files(module, function.model.name)
        if line in (pairs := pair(function, kernel_text(file))).module and (at := pairs.in_cpp(line)) is not None
    ]
    if not lines:
        return ""
    from pypto_build.diagnose.speed.answer import KEPT, read_document  # numpy takes a second of the first hover alone

    root = module.parent.parent
    state = state_of(root)
    for path in _predictions(root, KEPT):
        try:
            document = read_document(path)
        except ArtifactError:
            continue
        if document.state != state:
            continue
        positions = {(str(file.relative_to(root)), number) for file, number in lines}
        numbers = {row.row for row in document.lines if (row.path, row.line) in positions}
        rows = [row for row in document.prediction.rows if row.row in numbers]
        if rows:
            whole, chip = document.prediction.time_us, document.prediction.chip
            time, count = sum(row.time_us for row in rows), sum(row.count for row in rows)
            pipes = ", ".join(dict.fromkeys(row.pipe for row in rows))
            executions = "one execution" if count == 1 else f"{count:,} executions"
            return f"predicted on {chip}: **{time:,.2f} us** on {pipes} in {executions}; the run takes {whole:,.1f} us"
    return ""


def _predictions(root: Path, name: str) -> list[Path]:
    """Return the predictions of an artifact in `build/`, beside `build_output/` or in the working directory."""
    folders = dict.fromkeys((Path.cwd(), root.resolve().parent.parent, root.resolve().parent))
    files = [file for folder in folders for file in folder.glob(f"build/*/{root.name}/{name}") if file.is_file()]
    return sorted(files, key=lambda file: -file.stat().st_mtime_ns)
