"""`scons report`: one HTML file about the last replay of an artifact.

python -m pypto_build.diagnose.report ARTIFACT_DIR --build-dir OUT [--output report.html]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pypto_build.diagnose.console import add_chips, command, tool_parser
from pypto_build.diagnose.recorded.evidence import Evidence
from pypto_build.diagnose.repeat import add_passed_on
from pypto_build.diagnose.report.page import write_report
from pypto_build.diagnose.report.whole import report_data


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = tool_parser("report", __doc__)
    add = options.add_argument
    add("artifact", type=Path, metavar="ARTIFACT_DIR")
    add("--build-dir", type=Path, required=True, metavar="OUT", help="where it was replayed")
    add("--platform", default="a2a3sim", help="what it was replayed on")
    add("--embedded", default="EMBEDDED", help="the runtime's module, for the commands that repeat the run")
    add("--output", type=Path, help="the file to write (default: OUT/report.html)")
    add_passed_on(options)
    add_chips(options)
    return options


@command("report", parser)
def main(options: argparse.Namespace) -> int:
    """Write the report; 0, or 2 where there is nothing to report on."""
    evidence = Evidence(options.artifact, options.build_dir, options.platform)
    return write_report(
        options, lambda repeat: report_data(evidence, options.data, repeat, options.embedded, options.chip)
    )


if __name__ == "__main__":
    sys.exit(main())
