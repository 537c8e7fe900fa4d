"""Attributes of rules: declared once in a table, checked on every call, documented from the same table."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from pypto_build.facts.platforms import PLATFORMS


class RuleError(Exception):
    """A rule called with a wrong attribute. ``str()`` is one line."""


_TYPE_NAMES: dict[type, str] = {str: "string", int: "integer", float: "number", dict: "dictionary", Path: "path"}


class Attribute(msgspec.Struct, frozen=True):
    """One attribute of a rule. ``types`` are the Python types a value may have."""

    name: str
    types: tuple[type, ...]
    doc: str
    default: Any = None
    required: bool = False
    choices: tuple[str, ...] = ()

    @property
    def type_names(self) -> str:
        """The types, for messages and for the documentation."""
        return " or ".join(_TYPE_NAMES.get(kind, kind.__name__) for kind in self.types)


PLATFORM = Attribute("platform", (str,), "what it is built for (default: PLATFORM=)", choices=tuple(PLATFORMS))


class Rule(msgspec.Struct, frozen=True):
    """A rule's name, what it does, and its attributes."""

    name: str
    doc: str
    attributes: tuple[Attribute, ...]

    def check(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """``given`` with defaults filled in.

        Raises:
            RuleError: an attribute that does not exist, is missing, or has the wrong type or value.
        """
        known = {attribute.name: attribute for attribute in self.attributes}
        for name in given:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                way_out = f"did you mean '{near[0]}'?" if near else f"it takes {', '.join(known)}"
                raise RuleError(f"{self.name}: no attribute '{name}'; {way_out}")
        return {name: self._value(attribute, given) for name, attribute in known.items()}

    def _value(self, attribute: Attribute, given: Mapping[str, Any]) -> Any:
        if attribute.name not in given or given[attribute.name] is None:
            if attribute.required:
                raise RuleError(f"{self.name}: attribute '{attribute.name}' is missing; it is {attribute.doc}")
            return attribute.default
        value = given[attribute.name]
        is_bool_for_number = isinstance(value, bool) and bool not in attribute.types
        if not isinstance(value, attribute.types) or is_bool_for_number:
            raise RuleError(
                f"{self.name}: {attribute.name}={value!r} is not a {attribute.type_names}; it is {attribute.doc}"
            )
        if attribute.choices and value not in attribute.choices:
            raise RuleError(f"{self.name}: {attribute.name}={value!r} is not one of {', '.join(attribute.choices)}")
        return value
