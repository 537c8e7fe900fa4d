"""The oracle: what a fresh build in an empty directory with an empty store says, asked once for each state."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.trust.space import Outcome, Space
from tests.trust.tested import Tested, tree_digest


@dataclass(frozen=True)
class Answer:
    """The outcome of a fresh build, and its log."""

    outcome: Outcome
    log: str


@dataclass
class Oracle:
    """Answers, kept in a directory that all share who test the same."""

    tested: Tested
    runs: int = 0
    built: int = 0
    _known: dict[str, Answer] = field(default_factory=dict)

    def ask(self, space: Space, package: str, options: Sequence[str]) -> Answer:
        """Return the answer of a fresh build of the workspace; ``package`` tells versions of the tested code apart.

        In options, ``{root}`` stands for the workspace.
        """
        self.runs += 1
        variables = json.dumps(space.variables, sort_keys=True)
        state = [tree_digest(space.root, ("build", "pool")), package, space.name, list(options), variables]
        key = hashlib.sha256(json.dumps(state).encode()).hexdigest()
        if key not in self._known:
            self._known[key] = self._stored(key) or self._build(key, space, options)
        return self._known[key]

    def _stored(self, key: str) -> Answer | None:
        try:
            kept = json.loads((self.tested.home / "answers" / key).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        outputs = tuple((name, status, count, largest) for name, status, count, largest in kept["outputs"])
        return Answer(Outcome(kept["exit"], kept["status"], outputs), kept["log"])

    def _build(self, key: str, space: Space, options: Sequence[str]) -> Answer:
        self.built += 1
        directory = Path(tempfile.mkdtemp(prefix="oracle-", dir=self.tested.home))
        try:
            fresh = directory / "w"
            replayed = space.oracle(fresh, *(option.replace("{root}", str(space.root)) for option in options))
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        outcome = replayed.outcome
        answer = Answer(outcome, str(replayed.done))
        file = self.tested.home / "answers" / key
        file.parent.mkdir(exist_ok=True)
        partial = file.with_name(f"{key}.{os.getpid()}")
        kept = {"exit": outcome.exit, "status": outcome.status, "outputs": outcome.outputs, "log": answer.log}
        partial.write_text(json.dumps(kept), encoding="utf-8")
        partial.replace(file)
        return answer
