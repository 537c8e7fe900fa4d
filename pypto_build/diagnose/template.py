"""Files that are made from a template. Each mark in the template is replaced by a text, whatever that text contains."""

from __future__ import annotations

import re
from collections.abc import Mapping


def fill(template: str, parts: Mapping[str, str]) -> str:
    """Return ``template`` with a part for each mark. A mark within a part stays as it is."""
    marks = "|".join(map(re.escape, parts))
    return re.sub(marks, lambda mark: parts[mark[0]], template)
