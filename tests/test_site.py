"""The documentation site builds without a warning, and its pages load nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_the_site_builds_and_needs_no_network(tmp_path: Path) -> None:
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "-q", "build", "--strict", "--site-dir", str(tmp_path)]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout + run.stderr) == (0, "")
    for page in tmp_path.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r"""<(?:script|img|source|iframe)\b[^>]*\bsrc(?:set)?=["']?([^"' >]+)""", text)
        loaded += re.findall(
            r"""<link\b[^>]*rel=["']?(?:stylesheet|preload|preconnect)[^>]*href=["']?([^"' >]+)""", text
        )
        assert not [address for address in loaded if address.startswith(("http:", "https:", "//"))], page
        assert "fonts.g" not in text
    assert (tmp_path / "search" / "search_index.json").stat().st_size > 10_000
