"""Why SCons rebuilds a target, in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_SETTING = "setting: "


def rebuild_reason(node: Any, name: Callable[[str], str], otherwise: str = "it was missing or had failed") -> str:
    """What differs between ``node`` now and the last time it was built, as one phrase.

    ``name`` shortens a file name for people, ``otherwise`` is the answer if nothing differs. The comparison is SCons'
    own: content signatures of every input, and the signature of the command line.
    """
    old = node.get_stored_info().binfo
    if not hasattr(old, "bsources") or old.bactsig is None:
        return "not built before"
    before = _recorded(old)
    new = node.get_binfo()
    after = {str(child): child.get_csig() for child in (*new.bsources, *new.bdepends, *new.bimplicit)}
    # A run that failed leaves no signatures of what it read.
    files = [name(key) for key in after if before.get(key) and before[key] != after[key]]
    settings = sorted({label for key in before.keys() ^ after.keys() if (label := _setting_name(key))})
    changed = ([f"content of {few(files)}"] if files else []) + ([few(settings)] if settings else [])
    if changed:
        return f"{' and '.join(changed)} changed"
    if added := [name(key) for key in after if key not in before]:
        return f"{few(added)} {'is a new input' if len(added) == 1 else 'are new inputs'}"
    if gone := [name(key) for key in before if key not in after]:
        return f"{few(gone)} {'is no longer an input' if len(gone) == 1 else 'are no longer inputs'}"
    if old.bactsig != new.bactsig:
        return "its command line changed"
    return otherwise


def setting(env: Any, name: str, value: object) -> Any:
    """An input that is no file: its value decides, its name is what people are told."""
    return env.Value(f"{_SETTING}{name}={value}")


def _setting_name(key: str) -> str:
    """The name of a setting, empty for a file: SCons knows the one by its text and the other by its path."""
    return key[len(_SETTING) :].partition("=")[0] if key.startswith(_SETTING) else ""


def _recorded(info: Any) -> dict[str, str]:
    children = [*info.bsources, *info.bdepends, *info.bimplicit]
    signatures = [*info.bsourcesigs, *info.bdependsigs, *info.bimplicitsigs]
    return {str(child): getattr(sig, "csig", None) or "" for child, sig in zip(children, signatures, strict=False)}


def few(names: list[str], most: int = 3) -> str:
    """The first names, and how many more there are."""
    shown = ", ".join(names[:most])
    return f"{shown} (+{len(names) - most} more)" if len(names) > most else shown
