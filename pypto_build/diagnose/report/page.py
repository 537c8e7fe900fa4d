"""Writes the report as one file that contains template, style, scripts and data. The page loads no other file."""

from __future__ import annotations

import argparse
import html
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import from_here, write_bytes
from pypto_build.diagnose.console import taking_long
from pypto_build.diagnose.recorded.evidence import Evidence
from pypto_build.diagnose.repeat import Repeat, written_options
from pypto_build.diagnose.report.collect import graph_data, timeline_data
from pypto_build.diagnose.template import fill

# A report: where it goes, and what is said of it.


def write_report(options: argparse.Namespace, data_of: Callable[[Repeat], dict[str, Any]]) -> int:
    """Write the page of what `data_of` collects of a run; the exit status."""
    if not (options.build_dir / "verdict.json").is_file():
        raise ArtifactError(options.build_dir / "verdict.json", "is missing", "replay the artifact first: scons replay")
    path = options.output or options.build_dir / "report.html"
    with taking_long("writing the report"):
        data = data_of(written_options(options.words))
        write_bytes(path, page(f"{data['verdict']['status']}: {data['artifact']}", data).encode())
    size = path.stat().st_size
    print(f"[report] {from_here(path)}  ({size / 1024:.0f} KiB, open it in any browser; it needs no network)")
    return 0


_HERE = Path(__file__).resolve().parent
#: In the order in which they use each other.
_SCRIPTS = ("dom.js", "plane.js", "graph.js", "timeline.js", "predicted.js", "ranks.js", "maps.js", "main.js")


def page(title: str, data: Mapping[str, Any]) -> str:
    """The whole file for `data` (see `collect`)."""
    parts = {
        "@TITLE@": html.escape(title),
        "@STYLE@": _read("page.css"),
        "@SCRIPT@": "\n".join(_read(name) for name in _SCRIPTS),
        # "<" never stands in it, so no text of the data can end the element.
        "@DATA@": json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"),
    }
    return fill(_read("page.html"), parts)


def graph_page(evidence: Evidence) -> str:
    """A page with graph and timeline only."""
    name = evidence.artifact.name if evidence.artifact else evidence.root.name
    data = {
        "artifact": name,
        "facts": [["platform", evidence.platform]],
        "graph": graph_data(evidence),
        "timeline": timeline_data(evidence),
    }
    return page(f"Task graph of {name}", data)


def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")
