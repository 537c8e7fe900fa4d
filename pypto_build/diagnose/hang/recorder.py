"""Reader of the flight recorder of the last run here that hung or crashed."""

from __future__ import annotations

from pathlib import Path

from pypto_build.artifact import ArtifactError, is_distributed, load_artifact
from pypto_build.diagnose.findings import Finding
from pypto_build.diagnose.hazards.faults import fault_finding
from pypto_build.replay.flight import FLIGHT, Flight, read_kept
from pypto_build.replay.report import last_line
from pypto_build.replay.verdict import read_verdict

_SHOWN = 32
_VERDICT = "verdict.json"


class LastRun:
    """The verdict of the last replay in `out`, and the events before its end if it failed."""

    def __init__(self, root: Path, out: Path) -> None:
        if not (out / _VERDICT).is_file():
            raise ArtifactError(
                out / _VERDICT,
                "is missing: nothing ran here yet",
                "replay first, or name the logs of a run elsewhere with LOG=",
            )
        self.root, self.verdict = root, read_verdict(out / _VERDICT)
        path = out / "dfx_outputs" / FLIGHT
        self.flight: Flight | None = read_kept(path) if self.failed and path.is_file() else None
        if self.flight and self.verdict.error:
            self.verdict.error.fault, self.verdict.error.line = self.flight.fault, self.flight.line

    @property
    def failed(self) -> bool:
        """True if the run hung or ended by a fault."""
        return self.verdict.status in ("hang", "runtime_error")

    def lines(self) -> list[str]:
        """Return lines on the end of the run, the last event of every core, and the last events of all."""
        verdict = self.verdict
        if not self.failed or verdict.error is None:
            return [f"[hang] {verdict.artifact}: the last replay here neither hung nor crashed: {verdict.status}"]
        lines = [f"[hang] {verdict.artifact}: {last_line(verdict, verdict.run_s).partition(': ')[2]}"]
        if self.flight is None or not self.flight.events:
            return [*lines, "    nothing was recorded before it"]
        of_each = [number for _, number in sorted(self.flight.last_of_each().items())]
        lines += ["the last of each core:", *(f"    {line}" for line in self.flight.shown(of_each))]
        shown = self.flight.lines(_SHOWN)
        lines += [f"the last {len(shown)} of {len(self.flight.events)} events (dfx_outputs/{FLIGHT}):"]
        return [*lines, *(f"    {line}" for line in shown)]

    def findings(self) -> list[Finding]:
        """Return the finding on the cause of the end, or nothing if the run did not fail."""
        found = None if is_distributed(self.root) else fault_finding(load_artifact(self.root), self.verdict, "hang")
        if found is None and self.failed and (error := self.verdict.error):
            found = Finding(f"hang/{error.kind}", error.message, hint=error.hint, detail=tuple(error.detail))
        return [found] if found else []
