"""Attributes of rules: declared once in a table, checked on every call, documented from the same table."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from pypto_build.facts.platforms import PLATFORMS
from pypto_build.rules.machinery.inputs import Kind, RuleError, as_node, as_nodes, is_path
from pypto_build.rules.machinery.scons_types import Environment

# What is no name of a file between slashes.
_NO_NAMES = frozenset({"", ".", ".."})
_TYPE_NAMES: dict[type, str] = {str: "string", int: "integer", float: "number", dict: "dictionary"}


class Attribute(msgspec.Struct, frozen=True):
    """One attribute of a rule.

    ``types`` are the Python types of a valid value. An attribute that names files has a ``kind`` instead, and is given
    as SCons nodes; ``words`` are further valid texts.
    """

    name: str
    types: tuple[type, ...]
    doc: str
    default: Any = None
    required: bool = False
    choices: tuple[str, ...] = ()
    kind: Kind | None = None
    words: tuple[str, ...] = ()

    @property
    def type_names(self) -> str:
        """Return the types, for messages and for the documentation."""
        if self.kind:
            return " or ".join([self.kind.value, *map(repr, self.words)])
        names = " or ".join(_TYPE_NAMES.get(kind, kind.__name__) for kind in self.types)
        return f"{names}, or a list" if self.name in MANY else names

    def value(self, rule: str, value: Any, env: Environment) -> Any:
        """Return ``value``, checked; nodes for an attribute that names files.

        Raises:
            RuleError: it has the wrong type or value.
        """
        if self.kind is not None:
            if value in self.words if isinstance(value, str) else False:
                return value
            convert = as_nodes if self.kind.is_list else as_node
            return convert(env, value, self.kind, f"{rule}: {self.name}", self.doc)
        is_bool_for_number = isinstance(value, bool) and bool not in self.types
        if not isinstance(value, self.types) or is_bool_for_number:
            types = f"{'an' if self.type_names[0] in 'aeiou' else 'a'} {self.type_names}"
            raise RuleError(f"{rule}: {self.name}={value!r} is not {types}; the attribute is {self.doc}")
        if self.choices and value not in self.choices:
            raise RuleError(f"{rule}: {self.name}={value!r} is not one of {', '.join(self.choices)}")
        if self.name == "name" and not (str(value).isprintable() and _NO_NAMES.isdisjoint(str(value).split("/"))):
            way_out = "write no control characters, no '..', and no '/' at an end"
            raise RuleError(f"{rule}: name={value!r} cannot be part of a file name; {way_out}")
        return value


PLATFORM = Attribute("platform", (str,), "what it is built for (default: PLATFORM=)", choices=tuple(PLATFORMS))


def path_attribute(name: str, kind: Kind, doc: str, **more: Any) -> Attribute:
    """Return an attribute that names a file or directory, or several."""
    return Attribute(name, (), doc, kind=kind, **more)


#: Attributes that take a list of values: the rule is declared once for each.
MANY = ("platform", "rtol", "atol", "memory", "world")


def each_variant(named: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield ``named`` with each combination of values of those attributes in `MANY` that are lists; names differ."""
    lists = {name: named[name] for name in MANY if isinstance(named.get(name), (list, tuple))}
    for values in itertools.product(*lists.values()):
        chosen = dict(zip(lists, values, strict=True))
        words = [str(value) if name == "platform" else f"{name}-{value}" for name, value in chosen.items()]
        variant = {**named, **chosen}
        if "name" in named and words:
            variant["name"] = ".".join([str(named["name"]), *words])
        yield variant


class Rule(msgspec.Struct, frozen=True):
    """A rule's name, what it does, and its attributes."""

    name: str
    doc: str
    attributes: tuple[Attribute, ...]

    def check(self, values: Mapping[str, Any], env: Environment) -> dict[str, Any]:
        """Return ``values`` with defaults filled in.

        Raises:
            RuleError: an attribute that does not exist, is missing, or has the wrong type or value.
        """
        attributes = {attribute.name: attribute for attribute in self.attributes}
        for name in values:
            if name not in attributes:
                near = difflib.get_close_matches(name, attributes, n=1)
                way_out = f"did you mean '{near[0]}'?" if near else f"it takes {', '.join(attributes)}"
                raise RuleError(f"{self.name}: no attribute '{name}'; {way_out}")
        return {name: self._value(attribute, values, env) for name, attribute in attributes.items()}

    def _value(self, attribute: Attribute, values: Mapping[str, Any], env: Environment) -> Any:
        if values.get(attribute.name) is None:
            if attribute.required:
                raise RuleError(f"{self.name}: attribute '{attribute.name}' is missing; it is {attribute.doc}")
            return attribute.default
        return attribute.value(self.name, values[attribute.name], env)


__all__ = ["PLATFORM", "Attribute", "Kind", "Rule", "RuleError", "is_path", "path_attribute"]
