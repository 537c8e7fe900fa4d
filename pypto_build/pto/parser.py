"""Text to model: modules and functions, and the entry points `parse` and `parse_file`.

Lexing is one `findall` of a compiled regular expression; parsing is recursive descent over the resulting strings,
driven by the operations' definitions. Why not a parser library: benchmarks/pto_parse.py measures ours, lark and xDSL
on the same 1 MB module. Every error is a PtoError; no input makes the parser crash, hang or recurse without bound.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from pypto_build.facts.positions import SourcePosition

from .errors import PtoError
from .model import END, Argument, Function, Module, Operation, Source
from .parse_operations import OperationReader

# Reading a ``.pto`` file that anybody may have written.

#: Bytes of a module; the largest that people have has a hundredth of it.
_LARGEST = 128 << 20


def read_module(path: str | Path) -> str:
    """Return the text of a module; bytes that are not UTF-8 are kept as surrogates.

    Raises ``OSError`` with a ``strerror`` for people, also for files that are not regular (they could block) or too
    large.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError:
        raise OSError(errno.EINVAL, "no file can have this name", str(path)) from None
    try:
        _require_file(descriptor, str(path))
    except OSError:
        os.close(descriptor)
        raise
    with open(descriptor, "rb", buffering=0) as file:
        text = file.read().decode("utf-8", "surrogateescape")
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _require_file(descriptor: int, path: str) -> None:
    status = os.fstat(descriptor)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a file", path)
    if status.st_size > _LARGEST:
        raise OSError(errno.EFBIG, f"it has {status.st_size:,} bytes, at most {_LARGEST:,} are read", path)


def parse(text: str, path: str = "<pto>") -> Module:
    """Return the module written in `text`; `path` is used in messages only. Raises PtoError."""
    source = Source(path, text)
    reader = ModuleReader(source)
    return reader.file()


def parse_file(path: str | Path) -> Module:
    """Return the module in a file. Raises PtoError, also for an unreadable file."""
    try:
        text = read_module(path)
    except OSError as error:
        raise PtoError(SourcePosition(str(path)), f"cannot be read: {error.strerror or error}") from None
    return parse(text, str(path))


class ModuleReader(OperationReader):
    def file(self) -> Module:
        """Read one `module`, or functions without one."""
        aliases = self.aliases()
        if self.tokens[self.at] == "module":
            module = self.module()
            module.aliases = aliases
        else:
            module = Module([], aliases=aliases, explicit=False, token=self.at)
            while self.tokens[self.at] == "func.func":
                module.items.append(self.function())
            if not module.items:
                self.fail(f"expected 'module' or 'func.func', found {self.shown_token()}")
        module.aliases |= self.aliases()
        if self.tokens[self.at] != END:
            self.fail(f"expected the end of the file, found {self.shown_token()}")
        module.source = self.source
        return module

    def aliases(self) -> dict[str, str]:
        """Read `#name = …` lines as text."""
        aliases: dict[str, str] = {}
        while self.tokens[self.at][:1] == "#" and self.tokens[self.at + 1] == "=":
            name = self.tokens[self.at]
            self.at += 2
            if self.tokens[self.at] == "loc":
                aliases[name] = str(self.location())
            else:
                aliases[name] = str(self.attribute())
        return aliases

    def module(self) -> Module:
        self.current = "module"
        module = Module(token=self.at)
        self.at += 1
        if self.tokens[self.at][:1] == "@":
            module.name = self.tokens[self.at][1:]
            self.at += 1
        if self.accept("attributes"):
            self.attr_dict(module.attrs)
        self.expect("{", "'{' before the module's body")
        if self.depth >= 8:
            self.fail("expected at most 8 nested modules", self.at - 1)
        self.depth += 1
        while self.tokens[self.at] != "}":
            module.items.append(self.item())
        self.depth -= 1
        self.at += 1
        if self.tokens[self.at] == "loc":
            module.loc = self.location()
        self.current = ""
        return module

    def item(self) -> Function | Module | Operation:
        token = self.tokens[self.at]
        if token == "func.func":
            return self.function()
        if token == "module":
            return self.module()
        self.current = "module"
        self.fail(f"expected func.func, module or '}}', found {self.shown_token()}")

    def function(self) -> Function:
        self.current = "func.func"
        start = self.at
        self.at += 1
        visibility = ""
        if self.tokens[self.at] in ("private", "public"):
            visibility = self.tokens[self.at]
            self.at += 1
        name = self.tokens[self.at]
        if name[:1] != "@" or len(name) < 2:
            self.fail(f"expected the function's name (@name), found {self.shown_token()}")
        self.at += 1
        function = Function(name[1:], visibility=visibility, token=start)
        function.args = self.arguments()
        if self.accept("->"):
            function.results = tuple(self.result_types())
        if self.accept("attributes"):
            self.attr_dict(function.attrs)
        if self.tokens[self.at] == "{":
            function.body = self.region()
        if self.tokens[self.at] == "loc":
            function.loc = self.location()
        self.current = ""
        return function

    def arguments(self) -> tuple[Argument, ...]:
        """Read `(%a: T {…}, …)`; in a declaration the names may be absent."""
        self.expect("(", "'(' and the arguments")
        arguments: list[Argument] = []
        while self.tokens[self.at] != ")":
            name = ""
            if self.tokens[self.at][:1] == "%":
                name = self.value()
                self.expect(":", "':' and the type")
            argument = Argument(name, self.type())
            if self.tokens[self.at] == "{":
                self.attr_dict(argument.attrs)
            if self.tokens[self.at] == "loc":
                self.location()
            arguments.append(argument)
            if not self.accept(","):
                break
        self.expect(")", "',' or ')'")
        return tuple(arguments)
