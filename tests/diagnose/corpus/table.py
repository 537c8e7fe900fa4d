"""The corpus as a table for the documentation: `python -m tests.diagnose.corpus.table` prints it."""

from __future__ import annotations

from tests.diagnose.corpus.hazards import BUGS

BEGIN, END = "<!-- corpus: begin -->", "<!-- corpus: end -->"


def table() -> str:
    """One row a bug: what is planted, where it is found, by which rule, whether the finding's edit repairs it."""
    rows = ["| planted bug | found at | rule | edit applies |", "|---|---|---|---|"]
    for bug in BUGS:
        at = bug.at.replace("|", "\\|")
        rows.append(f"| {bug.name} | `{bug.file}`: `{at}` | `{bug.rule}` | {'yes' if bug.fixed else 'by hand'} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(table(), end="")
