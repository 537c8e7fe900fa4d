"""What ``scons`` alone prints: targets, options, the artifacts it found."""

from __future__ import annotations

from collections.abc import Mapping

from pypto_build.artifact import find_artifacts
from pypto_build.facts.run_options import Option
from pypto_build.rules.machinery.workspace import Workspace, examples_dir
from pypto_build.rules.options import GROUP, OPTIONS, Group
from pypto_build.rules.targets import SECTIONS, TARGETS

_EXAMPLES = (
    "scons replay JIT=_jit_vector_dag PLATFORM=a2a3sim",
    "scons replay JIT=latest FORCE=1 VERBOSE=1",
)


def help_text(workspace: Workspace) -> str:
    """The help of a workspace."""
    places = (workspace.top / workspace.options.build_output, examples_dir(workspace))
    artifacts = [workspace.short(path) for path in find_artifacts(*places)]
    options = {f"{name}={default_text(option.default)}": option for name, option in OPTIONS.items()}
    return "\n".join(
        (
            "Usage: scons TARGET [NAME=value ...]",
            "",
            *(line for section in SECTIONS for line in _targets(section)),
            "Options, with their defaults.",
            *(line for group in Group for line in _options(group, options)),
            "",
            "Artifacts:",
            *(f"  {path}" for path in artifacts[:30]),
            *([f"  and {len(artifacts) - 30} more"] if len(artifacts) > 30 else [] if artifacts else ["  none found"]),
            "",
            "Examples:",
            *(f"  {example}" for example in _EXAMPLES),
            "",
        )
    )


def default_text(value: object) -> str:
    """A default as one would type it."""
    if value is None:
        return ""
    return str(int(value)) if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def _targets(section: str) -> list[str]:
    rows = {TARGETS[name].usage: TARGETS[name].doc for name in SECTIONS[section]}
    if "build" in SECTIONS[section]:
        rows["-c"] = "remove what was built (with JIT=x: of that artifact)"
    return [f"{section}:", *_table(rows, max(len(target.usage) for target in TARGETS.values())), ""]


def _options(group: Group, options: Mapping[str, Option]) -> list[str]:
    rows = {text: option.doc for text, option in options.items() if GROUP[option.name] is group}
    return [f"{group.value}:", *_table(rows, max(map(len, options)))]


def _table(rows: Mapping[str, str], width: int) -> list[str]:
    return [f"  {name:<{width}}  {text}" for name, text in rows.items()]
