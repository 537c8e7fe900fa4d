"""Reads the JSON that a run leaves for instruments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pypto_build.artifact import ArtifactError


def read_document(path: Path, again: str) -> Any:
    """What the file at `path` holds. Raises a usage error that ends with `again`, the way to a new one."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ArtifactError(path, f"cannot be read: {error.strerror}", again) from None
    except ValueError as error:
        raise ArtifactError(path, f"is not JSON: {error}", f"the run that wrote it did not finish; {again}") from None
