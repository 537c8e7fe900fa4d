"""Results that carry their proof.

A result is an object, a library, a spliced kernel, a signed manifest, a verdict, ... It is used only if every input of
the action that wrote it has the same bytes as then. The inputs are the files that the tool itself was seen to read.
``Place`` is the entry: a directory of outputs, and the record by which they are proven. ``docs/dev/trust.md`` states
the promises.
"""

from __future__ import annotations

from .action import Action, Result
from .place import Outcome, Place
from .store import Store

__all__ = ["Action", "Outcome", "Place", "Result", "Store"]
