"""A cursor over the tokens of a text: expecting, failing with a place, and reading types."""

from __future__ import annotations

from bisect import bisect_left
from typing import NoReturn

from .errors import PtoError, TypeSyntaxError
from .lexer import END, tokenize
from .model import Source
from .types import FunctionType, Type, parse_type

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
        """Raise at token number `token`, by default the next one."""
        raise PtoError(self.source.position(self.at if token is None else token), message, self.current)

    def found(self, token: int | None = None) -> str:
        """The next token, quoted for a message."""
        text = self.tokens[self.at if token is None else token]
        if text == END:
            return "the end of the file"
        return f"'{text}'" if len(text) <= 40 else f"'{text[:37]}...'"

    def expect(self, text: str, what: str = "") -> None:
        """Step over `text`."""
        if self.tokens[self.at] != text:
            self.fail(f"expected {what or repr(text)}, found {self.found()}")
        self.at += 1

    def accept(self, text: str) -> bool:
        """Step over `text` if it comes next, and return whether it does."""
        matches = self.tokens[self.at] == text
        self.at += matches
        return matches

    def value(self, what: str = "a value (%name)") -> str:
        """Step over an SSA value."""
        token = self.tokens[self.at]
        if token[:1] != "%" or len(token) < 2:
            self.fail(f"expected {what}, found {self.found()}")
        self.at += 1
        return token

    def value_list(self, close: str) -> list[str]:
        """`%a, %b` up to (not over) `close`; may be empty."""
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
            self.fail(f"expected {what}, found {self.found()}")
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
                self.fail(f"expected a type, found {self.found()}")
            text = _PREFIX[kind] + self.balanced("<", ">")
        elif text[:1] == "!" or text[:1].isalpha():
            self.at += 1
            if self.tokens[self.at] == "<":
                text += self.balanced("<", ">")
        else:
            self.fail(f"expected a type, found {self.found()}")
        try:
            type_ = parse_type(text if "\n" not in text else " ".join(text.split()))
        except TypeSyntaxError as error:
            self.fail(str(error), start)
        if self.at == start + 1:
            self._types[text] = type_
        return type_

    def type_list(self, kinds: tuple[str, ...] = ()) -> list[Type]:
        """`T, T`: at least one."""
        types = [self.type(kinds[0] if kinds else "")]
        while self.tokens[self.at] == "," and self.tokens[self.at + 1][:1] not in ("%", '"'):
            self.at += 1
            types.append(self.type(kinds[len(types)] if len(types) < len(kinds) else ""))
        return types

    def balanced(self, open_: str, close: str) -> str:
        """The raw text from the next token, an opening bracket, to its partner; blanks collapsed."""
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
        """`(T, T) -> R` or `(T) -> (R, R)`."""
        self.expect("(", "'(' and the operand types")
        inputs = [] if self.tokens[self.at] == ")" else self.type_list()
        self.expect(")", "',' or ')'")
        self.expect("->", "'->' and the result types")
        results = self.result_types()
        return FunctionType(inputs=tuple(inputs), results=tuple(results))

    def result_types(self) -> list[Type]:
        """`T`, `()` or `(T, T)`."""
        if not self.accept("("):
            return [self.type()]
        types = [] if self.tokens[self.at] == ")" else self.type_list()
        self.expect(")", "',' or ')'")
        return types
