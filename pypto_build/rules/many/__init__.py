"""One command on many artifacts: their choice, jobs that share processors and memory, the table at the end.

Every job is a fork of the process that read the options. It continues at the call of the tool in the SConstruct, as if
the command had named its artifact alone. A command on one artifact loads nothing of this package.
"""

from __future__ import annotations

from collections.abc import Mapping

from pypto_build.facts.options import GROUP, Group

_OF_MANY = frozenset(name for name, group in GROUP.items() if group is Group.MANY)
#: Options of the command as a whole; jobs do not get them.
OF_ALL = frozenset({"JIT", "PLATFORM", "TAGS"}) | _OF_MANY
#: Those of these options that a job gets which has a farm to itself.
OF_THE_FARM = ("SCHEDULER", "MEM")
#: Characters that make a name a glob.
SIGNS = "*?["


def names_many(arguments: Mapping[str, str]) -> bool:
    """Return True if these options may mean several artifacts or platforms."""
    jit = arguments.get("JIT", "")
    several = jit.startswith("@") or any(sign in jit for sign in (*SIGNS, ","))
    return bool(jit) and (several or "," in arguments.get("PLATFORM", "") or not _OF_MANY.isdisjoint(arguments))
