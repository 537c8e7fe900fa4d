"""Results that carry their proof.

A result (object, library, spliced kernel, signed manifest, verdict, ...) is used only if every input of the action that
wrote it is now, byte for byte, what it was then; the inputs are what the tool itself was seen to read. ``Place`` is the
entry: a directory of outputs, and the record by which they are proven. ``docs/trust.md`` says what is promised.
"""

from __future__ import annotations

from .action import Action, Result
from .place import Outcome, Place
from .store import Store

__all__ = ["Action", "Outcome", "Place", "Result", "Store"]
