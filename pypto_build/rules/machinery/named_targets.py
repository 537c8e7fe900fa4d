"""Prints the last line of a target that the command line names: the new files, or that it is up to date.

SCons prints this for its own builders. It always considers our nodes as built.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress

import SCons.Node
import SCons.Node.Alias
from SCons.Script import COMMAND_LINE_TARGETS, DEFAULT_TARGETS, GetBuildFailures, GetOption

from pypto_build import terminal
from pypto_build.rules.machinery.inputs import MADE_BY_US
from pypto_build.rules.machinery.progress import Progress
from pypto_build.rules.machinery.scons_types import Node
from pypto_build.rules.machinery.steps import Step

_SILENT = ("no_exec", "clean", "question", "silent", "help")


def tell_named(progress: Progress, speaking: Collection[str]) -> None:
    """Print a line for each named target, except those in ``speaking``, which print their own. Print nothing after a
    failure.
    """
    if GetBuildFailures() or any(map(GetOption, _SILENT)):
        return
    for target in COMMAND_LINE_TARGETS or DEFAULT_TARGETS:
        if str(target) not in speaking and (line := _line(str(target), progress)):
            terminal.say(line)


def _line(target: str, progress: Progress) -> str:
    """Return the line of one target; empty if it has printed something, or has no node of ours."""
    below = list(_below(target))
    if below[0].get_state() not in (SCons.Node.executed, SCons.Node.up_to_date):
        return ""
    steps = [step for node in below if (step := _step(node))]
    if not steps:
        return ""
    made = [(step, how) for step in steps if (how := progress.how.get((step.output_dir.directory, step.action.name)))]
    if any(step.shown and how == "built" for step, how in made):
        return ""
    if not made:
        return "" if any(map(_ran, below)) else f"scons: `{target}' is up to date."
    did = [f"{step.label.split()[-1] if how == 'built' else how} {step.subject}" for step, how in made][::-1]
    more = f", and {len(did) - 3} more" if len(did) > 3 else ""
    return f"scons: `{target}' is built: {', '.join(did[:3])}{more}"


def _below(target: str) -> Iterator[Node]:
    """Yield the node of a target, and all nodes that it depends on."""
    alias = SCons.Node.Alias.default_ans.lookup(target)
    waiting = [alias or SCons.Node.FS.get_default_fs().Entry(target)]
    seen: set[Node] = set()
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            yield node
            waiting += node.all_children(scan=0)


def _step(node: Node) -> Step | None:
    """Return the step of a node that a rule of ours makes."""
    with suppress(KeyError, AttributeError):
        if getattr(node.attributes, MADE_BY_US, False):
            step: Step = node.get_build_env()["PYPTO_STEP"]
            return step
    return None


def _ran(node: Node) -> bool:
    """Return whether a user's builder made a node in this run, which SCons has printed."""
    ours = getattr(node.attributes, MADE_BY_US, False) or isinstance(node, SCons.Node.Alias.Alias)
    return not ours and node.has_builder() and node.get_state() == SCons.Node.executed
