"""`scons deps`: what waits for what, through which tensor; where the time went; DOT, HTML and trace files on request.

python -m pypto_build.diagnose.deps ARTIFACT_DIR|RECORDS [--build-dir OUT] [--task 12] [--to 15] [--export dot]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pypto_build.artifact import ArtifactError, is_distributed
from pypto_build.artifact.files import from_here, write_bytes
from pypto_build.diagnose.console import add_chips, add_options_of, command, one_of, require_one_rank, tool_parser
from pypto_build.diagnose.deps.text import dot, path_between, summary_lines, task_lines, trace
from pypto_build.diagnose.recorded.evidence import Evidence, no_record

EXPORTS = ("dot", "html", "trace")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    options = tool_parser("deps", __doc__)
    add = options.add_argument
    add("root", type=Path, metavar="ARTIFACT_DIR|RECORDS", help="an artifact that was replayed, or a run's records")
    add("--build-dir", type=Path, metavar="OUT", help="where the artifact was replayed: build/<platform>/<artifact>")
    add("--platform", default="a2a3sim", help="where the times were taken")
    add("--embedded", help=argparse.SUPPRESS)
    add(
        "--output",
        type=Path,
        help="the file to write (default: deps.dot, deps.html or trace.json in OUT)",
    )
    add_options_of(options, "deps")
    add_chips(options)
    return options


def run_deps(options: argparse.Namespace) -> int:
    """Run the command that the options name, and return its exit status."""
    evidence = Evidence(options.root, options.build_dir, options.platform)
    if evidence.graph is None and evidence.timeline is None:
        directory = options.build_dir or options.root
        raise no_record(
            directory, "contains neither deps.json nor a timeline", "replay with DEP_GEN=1 SWIMLANE=4 first"
        )
    if options.export:
        one_of("EXPORT", options.export, EXPORTS)
        print(from_here(_export(evidence, options.export, options.output, options.build_dir)))
        return 0
    if options.to:
        return _order(evidence, options.task, options.to)
    if not options.task:
        print("\n".join(summary_lines(evidence)))
        return 0
    if evidence.graph is None:
        raise ArtifactError(options.build_dir or options.root, "contains no deps.json", "replay with DEP_GEN=1 first")
    blocks = [task_lines(evidence, evidence.order.find(text)) for text in options.task.split(",")]
    print("\n\n".join("\n".join(block) for block in blocks))
    return 0


def _order(evidence: Evidence, one: str, other: str) -> int:
    """Print the chain of dependencies between two tasks. Returns 1 if there is none."""
    graph = evidence.graph
    if graph is None or not one:
        raise ArtifactError(
            "TO=",
            "needs TASK= and a deps.json to explain an order",
            "name the two tasks with TASK= and TO=, and replay with DEP_GEN=1",
        )
    ends = [evidence.order.find(one), evidence.order.find(other, "TO")]
    chain = path_between(graph, *ends) or path_between(graph, *ends[::-1])
    if not chain:
        print(f"nothing orders {evidence.title(ends[0])} and {evidence.title(ends[1])}")
        return 1
    print(evidence.title(chain[0].pred))
    for edge in chain:
        print(f"  -> {evidence.title(edge.succ)}, {evidence.reason(edge)}")
    return 0


def _export(evidence: Evidence, form: str, output: Path | None, build_dir: Path | None) -> Path:
    """Write the exported file, by default to a directory that replays do not clear, and return its path."""
    records = evidence.graph or evidence.timeline
    assert records is not None
    if form == "trace":
        if evidence.timeline is None:
            raise ArtifactError("EXPORT=trace", "contains no timeline", "replay with SWIMLANE=4 first")
        name, text = "trace.json", trace(evidence)
    elif form == "dot":
        if evidence.graph is None:
            raise ArtifactError("EXPORT=dot", "contains no deps.json", "replay with DEP_GEN=1 first")
        name, text = "deps.dot", dot(evidence, evidence.graph)
    else:
        from pypto_build.diagnose.report.page import graph_page

        name, text = "deps.html", graph_page(evidence)
    path = output or (build_dir or records.path.parent) / name
    write_bytes(path, text.encode())
    return path


@command("deps", parser)
def main(options: argparse.Namespace) -> int:
    """Run the command. Returns 0, 1 if --to finds no order, or 2 if there are no records."""
    if is_distributed(options.root):
        from pypto_build.diagnose.deps.ranks import deps_of_ranks

        return deps_of_ranks(options, run_deps)
    require_one_rank(options.rank)
    return run_deps(options)


if __name__ == "__main__":
    sys.exit(main())
