"""Reads ELF64 files: sections, defined dynamic symbols, and the machine code of a kernel for a device."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pypto_build.artifact.files import read_bytes

X86_64, AARCH64 = 62, 183
MACHINES = {X86_64: "x86-64", AARCH64: "aarch64"}

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMTAB, _NOBITS, _DYNSYM = 2, 8, 11
_LONGEST_NAME = 1 << 16  # templates have names of thousands of characters


class ElfError(Exception):
    """A file that is not ELF64 or cannot be used; ``str()`` is one line without the file's name."""


@dataclass(frozen=True)
class Section:
    """One section; ``link`` is the index of its string table, if it has one."""

    name: str
    kind: int
    address: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True)
class Symbol:
    """One symbol; ``section`` 0 means that this file does not define it."""

    name: str
    value: int
    section: int


class Elf:
    """The tables of an ELF64 little-endian file. Raises `ElfError` for anything else."""

    def __init__(self, data: bytes) -> None:
        if data[:4] != b"\x7fELF":
            raise ElfError("is not an ELF file")
        if data[4:6] != b"\x02\x01":
            raise ElfError("is not a 64-bit little-endian ELF file")
        self._data = data
        try:
            header = _HEADER.unpack_from(data)
            self.machine: int = header[2]
            self.sections = self._sections(offset=header[6], count=header[12], names=header[13])
        except (struct.error, IndexError, ValueError, OverflowError):
            raise ElfError("is truncated") from None

    def _sections(self, offset: int, count: int, names: int) -> tuple[Section, ...]:
        rows = [_SECTION.unpack_from(self._data, offset + index * _SECTION.size) for index in range(count)]
        strings = rows[names][4] if rows else 0
        return tuple(Section(self._string(strings + row[0]), row[1], row[3], row[4], row[5], row[6]) for row in rows)

    def _string(self, offset: int) -> str:
        return self._data[offset : self._data.index(b"\0", offset, offset + _LONGEST_NAME)].decode(errors="replace")

    def content(self, section: Section) -> bytes:
        """Return the bytes of a section."""
        if section.kind == _NOBITS:
            raise ElfError(f"has no content for the section {section.name}")
        data = self._data[section.offset : section.offset + section.size]
        if len(data) != section.size:
            raise ElfError("is truncated")
        return data

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """Return all symbols of both tables."""
        symbols: list[Symbol] = []
        tables = [table for table in self.sections if table.kind in (_SYMTAB, _DYNSYM)]
        if sum(table.size for table in tables) > len(self._data):
            raise ElfError("has symbol tables that overlap")
        try:
            for table in tables:
                strings = self.sections[table.link].offset
                rows = _SYMBOL.iter_unpack(self.content(table))
                symbols += [Symbol(self._string(strings + row[0]), row[4], row[3]) for row in rows]
        except (struct.error, IndexError, ValueError, OverflowError):
            raise ElfError("has a damaged symbol table") from None
        return tuple(symbols)

    @cached_property
    def defined(self) -> frozenset[str]:
        """Return the names of the symbols that this file defines."""
        return frozenset(symbol.name for symbol in self.symbols if symbol.section and symbol.name)


def read_elf(path: Path) -> Elf:
    """Return the tables of the file at ``path``. Raises `ElfError`, and ``OSError`` for an unreadable file."""
    return Elf(read_bytes(path))


def extract_text(elf: Elf, entry: str = "kernel_entry") -> bytes:
    """Return the machine code of a kernel for a device: its ``.text``, which must be self-contained and begin with
    ``entry``.

    A device loads only these bytes, at any address, and starts at the first. So there must be no other code section and
    no relocation left; an out-of-line template makes both. Raises `ElfError` otherwise.
    """
    texts = [section for section in elf.sections if section.name == ".text"]
    if not texts or not texts[0].size:
        raise ElfError("has no code (.text is missing or empty)")
    others = sorted(section.name for section in elf.sections if section.name.startswith(".text."))
    if others:
        raise ElfError(f"has code outside of .text ({', '.join(others)}), which would not be loaded onto the device")
    relocated = sorted(section.name for section in elf.sections if section.name.startswith((".rela.text", ".rel.text")))
    if relocated:
        raise ElfError(f"has relocations ({', '.join(relocated)}), which the device loader does not apply")
    index = elf.sections.index(texts[0])
    starts = [symbol for symbol in elf.symbols if symbol.name == entry and symbol.section == index]
    if not starts:
        raise ElfError(f"does not define {entry} in .text")
    start = starts[0].value - texts[0].address
    if start:
        raise ElfError(f"has {entry} at offset {start} of .text, but the device starts at offset 0")
    return elf.content(texts[0])
