"""Results that carry their proof.

A result is an object, a library, a spliced kernel, a signed manifest, a verdict, ... It is used only if every input of
the action that wrote it has the same bytes as then. The inputs are the files that the tool itself was seen to read.
``OutputDir`` is the entry: a directory of outputs, and the record that proves them. ``docs/dev/trust.md`` states the
promises.
"""

from __future__ import annotations

from .action import Action, Result
from .output_dir import Outcome, OutputDir
from .store import Store

__all__ = ["Action", "Outcome", "OutputDir", "Result", "Store"]
