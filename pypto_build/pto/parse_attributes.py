"""Reading attributes, attribute dictionaries and locations."""

from __future__ import annotations

import re
import struct
from bisect import bisect_left
from typing import NoReturn

from .errors import PtoError, TypeSyntaxError
from .model import (
    END,
    ArrayAttr,
    Attribute,
    BoolAttr,
    DictAttr,
    EnumAttr,
    FloatAttr,
    IntAttr,
    Location,
    RawAttr,
    Source,
    StrAttr,
    SymbolAttr,
    TypeAttr,
    UnitAttr,
    tokenize,
)
from .types import FunctionType, ScalarType, Type, parse_type

# A cursor over the tokens of a text: expecting, failing with a place, and reading types.

_PREFIX = {"ptr": "!pto.ptr", "tile": "!pto.tile_buf", "view": "!pto.tensor_view", "part": "!pto.partition_tensor_view"}


class Cursor:
    """Position `at` in `tokens`; `current` is the operation being read, for messages."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.tokens = tokenize(source.text)
        self.at = 0
        self.current = ""
        self._types: dict[str, Type] = {}

    def fail(self, message: str, token: int | None = None) -> NoReturn:
        """Raise PtoError at token number `token`, by default the next one."""
        raise PtoError(self.source.position(self.at if token is None else token), message, self.current)

    def shown_token(self, token: int | None = None) -> str:
        """Return the next token, quoted for a message."""
        text = self.tokens[self.at if token is None else token]
        if text == END:
            return "the end of the file"
        return f"'{text}'" if len(text) <= 40 else f"'{text[:37]}...'"

    def expect(self, text: str, what: str = "") -> None:
        """Skip the token `text`. Raises PtoError for any other token."""
        if self.tokens[self.at] != text:
            self.fail(f"expected {what or repr(text)}, found {self.shown_token()}")
        self.at += 1

    def accept(self, text: str) -> bool:
        """Skip the token `text` if it comes next, and return whether it did."""
        matches = self.tokens[self.at] == text
        self.at += matches
        return matches

    def value(self, what: str = "a value (%name)") -> str:
        """Read and return an SSA value."""
        token = self.tokens[self.at]
        if token[:1] != "%" or len(token) < 2:
            self.fail(f"expected {what}, found {self.shown_token()}")
        self.at += 1
        return token

    def value_list(self, close: str) -> list[str]:
        """Read `%a, %b` up to (not including) `close`; may be empty."""
        values: list[str] = []
        if self.tokens[self.at] != close:
            values.append(self.value())
            while self.tokens[self.at] == ",":
                self.at += 1
                values.append(self.value())
        return values

    def word(self, what: str) -> str:
        token = self.tokens[self.at]
        if not (token[:1].isascii() and (token[:1].isalpha() or token[:1] == "_")):
            self.fail(f"expected {what}, found {self.shown_token()}")
        self.at += 1
        return token

    # --- types ---------------------------------------------------------------------------------------------------

    def type(self, kind: str = "") -> Type:
        """Return a type; `kind` is assumed when the prefix is left out (`<f32>` for `!pto.ptr<f32>`)."""
        start = self.at
        text = self.tokens[start]
        plain = self._types.get(text)
        if plain is not None and self.tokens[start + 1] != "<":
            self.at += 1
            return plain
        if text == "<":
            if kind not in _PREFIX:
                self.fail(f"expected a type, found {self.shown_token()}")
            text = _PREFIX[kind] + self.balanced("<", ">")
        elif text[:1] == "!" or text[:1].isalpha():
            self.at += 1
            if self.tokens[self.at] == "<":
                text += self.balanced("<", ">")
        else:
            self.fail(f"expected a type, found {self.shown_token()}")
        try:
            type_ = parse_type(text if "\n" not in text else " ".join(text.split()))
        except TypeSyntaxError as error:
            self.fail(str(error), start)
        if self.at == start + 1:
            self._types[text] = type_
        return type_

    def type_list(self, kinds: tuple[str, ...] = ()) -> list[Type]:
        """Read `T, T`: at least one type."""
        types = [self.type(kinds[0] if kinds else "")]
        while self.tokens[self.at] == "," and self.tokens[self.at + 1][:1] not in ("%", '"'):
            self.at += 1
            types.append(self.type(kinds[len(types)] if len(types) < len(kinds) else ""))
        return types

    def balanced(self, open_: str, close: str) -> str:
        """Return the raw text from the next token, an opening bracket, to its closing bracket; blanks collapsed."""
        start = self.source.offsets[self.at]
        text, depth = self.source.text, 0
        for at in range(start, min(len(text), start + 65536)):
            if text[at] == open_:
                depth += 1
            elif text[at] == close and text[at - 1] != "-":
                depth -= 1
                if depth == 0:
                    self.at = bisect_left(self.source.offsets, at + 1)
                    if self.at < len(self.tokens) - 1 and self.source.offsets[self.at] > len(text):
                        break
                    return " ".join(text[start : at + 1].split())
        self.fail(f"expected '{close}' to close '{open_}'")

    def function_type(self) -> FunctionType:
        """Read `(T, T) -> R` or `(T) -> (R, R)`."""
        self.expect("(", "'(' and the operand types")
        inputs = [] if self.tokens[self.at] == ")" else self.type_list()
        self.expect(")", "',' or ')'")
        self.expect("->", "'->' and the result types")
        results = self.result_types()
        return FunctionType(inputs=tuple(inputs), results=tuple(results))

    def result_types(self) -> list[Type]:
        """Read `T`, `()` or `(T, T)`."""
        if not self.accept("("):
            return [self.type()]
        types = [] if self.tokens[self.at] == ")" else self.type_list()
        self.expect(")", "',' or ')'")
        return types


_ENUM = re.compile(r"#(?:pto\.)?(\w+)<\s*(?:(\w+)\s+)?([\w.]+)\s*>\Z")
_FLOAT_FORMATS = {"f32": ("<I", "<f", 4), "f64": ("<Q", "<d", 8), "f16": ("<H", "<e", 2)}
MAX_NESTING = 32


def number(text: str, type_: Type | None) -> Attribute | None:
    """Return the attribute for a numeral; None if it does not fit its type (`1.5 : i32`)."""
    is_float = isinstance(type_, ScalarType) and type_.is_float
    if re.fullmatch(r"-?(?:0x[0-9A-Fa-f]{1,32}|\d{1,40})", text):
        value = int(text, 0) if "x" in text else int(text)
        if is_float:
            assert isinstance(type_, ScalarType)
            return FloatAttr(_bits_to_float(value, type_.name) if "x" in text else float(value), type_, text)
        return IntAttr(value, type_, text)
    if type_ is not None and not is_float:
        return None
    return FloatAttr(float(text), type_, text) if re.fullmatch(r"[-+.\deE]{1,60}", text) else None


def _bits_to_float(bits: int, name: str) -> float:
    """Return the float with the bit pattern of a hexadecimal spelling."""
    if name == "bf16":
        bits, name = bits << 16, "f32"
    code, real, size = _FLOAT_FORMATS.get(name, ("<Q", "<d", 8))
    value: float = struct.unpack(real, struct.pack(code, bits & ((1 << 8 * size) - 1)))[0]
    return value


class AttributeReader(Cursor):
    def attr_dict(self, into: dict[str, Attribute], nesting: int = 0) -> None:
        """Read `{name = value, flag}`, beginning at the brace."""
        self.expect("{", "'{'")
        tokens = self.tokens
        while tokens[self.at] != "}":
            token = tokens[self.at]
            if token[:1] == '"' and len(token) > 2:
                name = token[1:-1]
                self.at += 1
            else:
                name = self.word("an attribute name or '}'")
            if name in into:
                self.fail(f"expected one '{name}', found a second", self.at - 1)
            if tokens[self.at] == "=":
                self.at += 1
                into[name] = self.attribute(nesting + 1)
            else:
                into[name] = UnitAttr()
            if tokens[self.at] != ",":
                break
            self.at += 1
        self.expect("}", "',' or '}' after an attribute")

    def attribute(self, nesting: int = 0) -> Attribute:
        """Read one attribute value."""
        if nesting > MAX_NESTING:
            self.fail(f"expected at most {MAX_NESTING} nested attributes")
        token = self.tokens[self.at]
        first = token[:1]
        if first.isdigit() or (first == "-" and len(token) > 1 and token != "->"):
            return self.numeral()
        if first == '"' and len(token) > 1:
            self.at += 1
            return StrAttr(token[1:-1])
        if first == "@" and len(token) > 1:
            self.at += 1
            return SymbolAttr(token[1:])
        if first in "#<" and token:
            return self.enum()
        if first == "[":
            self.at += 1
            items = self.attribute_list("]", nesting)
            self.expect("]", "',' or ']'")
            return ArrayAttr(tuple(items))
        if first == "{":
            inner: dict[str, Attribute] = {}
            self.attr_dict(inner, nesting)
            return DictAttr(tuple(inner.items()))
        if token in ("true", "false"):
            self.at += 1
            return BoolAttr(token == "true")
        return self.worded(token, nesting)

    def worded(self, token: str, nesting: int) -> Attribute:
        if self.accept("unit"):
            return UnitAttr()
        if token == "array" and self.tokens[self.at + 1] == "<":
            self.at += 2
            element = self.type()
            items: list[Attribute] = []
            if self.accept(":"):
                items = self.attribute_list(">", nesting)
            self.expect(">", "',' or '>'")
            return ArrayAttr(tuple(items), element)
        if token == "dense" and self.tokens[self.at + 1] == "<":
            self.at += 1
            return RawAttr("dense" + self.balanced("<", ">"))
        if token[:1] == "!" or token[:1].isalpha():
            return TypeAttr(self.type())
        self.fail(f"expected an attribute value, found {self.shown_token()}")

    def attribute_list(self, close: str, nesting: int) -> list[Attribute]:
        items: list[Attribute] = []
        if self.tokens[self.at] != close:
            items.append(self.attribute(nesting + 1))
            while self.accept(","):
                items.append(self.attribute(nesting + 1))
        return items

    def numeral(self) -> Attribute:
        """`5`, `0 : i32`, `1.0e+00 : f32`."""
        start = self.at
        text = self.tokens[start]
        self.at += 1
        type_ = None
        if self.tokens[self.at] == ":" and self.tokens[self.at + 1][:1] in "iufbs!":
            self.at += 1
            type_ = self.type()
        attribute = number(text, type_)
        if attribute is None:
            self.fail(
                f"expected a number{f' of type {type_}' if type_ else ''}, found {self.shown_token(start)}", start
            )
        return attribute

    def enum(self) -> Attribute:
        """`#pto.layout<nd>`, `#pto<cmp lt>`, `<vec>`, or an alias `#name`."""
        text = self.tokens[self.at]
        if text == "<":
            text = self.balanced("<", ">")
            match = re.fullmatch(r"<\s*([\w.]+)\s*>", text)
            if not match:
                self.fail("expected <name>", self.at - 1)
            return EnumAttr(match[1], "", text)
        self.at += 1
        if self.tokens[self.at] == "<":
            text += self.balanced("<", ">")
        text = " ".join(text.split())
        match = _ENUM.match(text)
        if match:
            return EnumAttr(match[3], match[2] or match[1], text)
        return RawAttr(text)

    def location(self) -> Location:
        """`loc("file":line:column)`, or any other `loc(…)` kept as text."""
        self.at += 1
        if self.tokens[self.at] != "(":
            self.fail(f"expected '(' after loc, found {self.shown_token()}")
        tokens, at = self.tokens, self.at
        if tokens[at + 1][:1] == '"' and tokens[at + 2 : at + 6 : 2] == [":", ":"] and tokens[at + 6] == ")":
            line, column = tokens[at + 3], tokens[at + 5]
            if line.isdigit() and column.isdigit() and len(line + column) < 20:
                self.at += 7
                return Location(f"{tokens[at + 1]}:{line}:{column}", tokens[at + 1][1:-1], int(line), int(column))
        return Location(self.balanced("(", ")")[1:-1])
