"""Damaged files from good ones: bytes, words, documents and archives are changed in ways that hurt readers."""

from __future__ import annotations

import hashlib
import io
import json
import random
import re
import struct
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

import zstandard

#: No mutation makes a file much longer than this.
LONGEST = 1 << 20

NUMBERS = (
    *(0, 1, -1, 2, 3, 7, 64, 255, 256, 4096, 65535, 65536, 10**6, 10**9, 10**12, 10**15, 10**18, 10**30),
    *(2**31 - 1, 2**31, -(2**31), 2**32, 2**32 - 1, 2**63 - 1, 2**63, -(2**63), 2**64, 2**64 - 1, 2**70),
)
_SPELT = (
    *("1e999", "-1e999", "1e308", "NaN", "nan", "Infinity", "-Infinity", "0x7fffffffffffffff", "-0", "0.5", "007"),
    *("9" * 25, "9" * 400, "9" * 5000, "0x" + "f" * 5000, "1_000", "1e5", "0x", "-"),
)
_STRINGS = (
    *("", ".", "..", "../../etc/passwd", "/", "/dev/zero", "a\0b", "a\nb", "é", "\ud800", "a" * 300, "b" * 70000, "-1"),
    *("{", "%s", "{0}", "__class__", "nan", "١٢", "float32", "int64", "0x10", "0x", "1:2", "IN", "~", "a/" * 3000),
)
_BRACKETS = {"(": ")", "[": "]", "{": "}", "<": ">"}
_WORDS = re.compile(r"\w+|[ \t]+|\n|.", re.DOTALL)

Mutation = Callable[[random.Random, bytes, Sequence[bytes]], bytes]


# -- bytes ------------------------------------------------------------------------------------------------------------


def damage_bytes(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Some bytes are changed, left out, doubled, exchanged for those of another file, or the end is cut off."""
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at = rng.randrange(len(made) + 1)
        length = rng.choice((1, 1, 2, 4, 8, 64, 512))
        match rng.randrange(8):
            case 0:
                made[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                del made[at : at + length]
            case 2:
                made[at:at] = made[at : at + length] * rng.choice((1, 2, 100))
            case 3:
                del made[at:]
            case 4:
                made[at:at] = rng.choice((b"\xff", b"\0", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r\n", b"\x1b"))
            case 5:
                other = rng.choice(others)
                start = rng.randrange(len(other) + 1)
                made[at : at + length] = other[start : start + length]
            case 6:
                _put_number(rng, made, at)
            case _:
                if at < len(made):
                    made[at] ^= 1 << rng.randrange(8)
    return bytes(made[:LONGEST])


def _put_number(rng: random.Random, made: bytearray, at: int) -> None:
    size = rng.choice((1, 2, 4, 8))
    at -= at % size
    value = rng.choice(NUMBERS) % (1 << 8 * size)
    made[at : at + size] = value.to_bytes(size, "little")


def damage_fields(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Numbers in a binary file become extreme ones, at places where numbers lie."""
    if rng.random() < 0.3:
        return damage_bytes(rng, data, others)
    made = bytearray(data)
    head = min(len(made), 256)
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        _put_number(rng, made, rng.randrange(head if rng.random() < 0.5 else len(made)))
    return bytes(made)


# -- text -------------------------------------------------------------------------------------------------------------


def damage_text(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Words are left out, doubled, moved, nested, repeated, or replaced by extreme ones."""
    if rng.random() < 0.15:
        return damage_bytes(rng, data, others)
    words = _WORDS.findall(data.decode("utf-8", "replace"))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        _change_words(rng, words, others)
        if sum(map(len, words)) > LONGEST:
            break
    return "".join(words)[:LONGEST].encode("utf-8", "surrogatepass")


def _change_words(rng: random.Random, words: list[str], others: Sequence[bytes]) -> None:
    if not words:
        words.append(rng.choice(_STRINGS))
    at = rng.randrange(len(words))
    numbers = [i for i, word in enumerate(words) if word[0].isdigit()] if rng.random() < 0.4 else []
    match 0 if numbers else rng.randrange(1, 13):
        case 0:
            words[rng.choice(numbers)] = _number_text(rng)
        case 1:
            del words[at : at + rng.choice((1, 1, 2, 5, 40))]
        case 2:
            words[at:at] = words[at : at + rng.choice((1, 2, 10, 60))]
        case 3:
            other = rng.randrange(len(words))
            words[at], words[other] = words[other], words[at]
        case 4:
            words[at : at + 1] = [words[at]] * rng.choice((2, 10, 100, 1000, 20000))
        case 5:
            _nest(rng, words, at)
        case 6:
            words[at] = rng.choice(_STRINGS)
        case 7:
            words[at] = rng.choice(words)
        case 8:
            del words[at:]
        case 9:
            text = rng.choice(others).decode("utf-8", "replace")
            start = rng.randrange(len(text) + 1)
            words[at:at] = [text[start : start + rng.choice((10, 100, 1000))]]
        case 10:
            words[at] = rng.choice(("/*", "*/", '"', "'", "//", "#", "\\", "\\\n", '"""', ";", ",", "=", "->", "::"))
        case 11:
            words[at:at] = [_many(rng, "".join(words[at : at + rng.choice((1, 2, 4, 8, 16, 30))]))]
        case _:
            span = words[at : at + rng.choice((1, 3, 12))]
            words[at : at + len(span)] = span * rng.choice((3, 30, 1000))


def _many(rng: random.Random, text: str) -> str:
    """A piece of text repeated until it is long, which hurts those who look for its end again and again."""
    return text * (rng.choice((1000, 20_000, 100_000)) // max(len(text), 1))


def _number_text(rng: random.Random) -> str:
    return str(rng.choice(NUMBERS)) if rng.random() < 0.7 else rng.choice(_SPELT)


def _nest(rng: random.Random, words: list[str], at: int) -> None:
    """A word in many brackets, or many open ones."""
    depth = rng.choice((2, 10, 60, 300, 1200, 20000))
    opening = rng.choice(["(", "[", "{", "<", "-", "!", "*", "if (x) {", "x=(", "not ", "f(", "a.", "{"])
    closing = _BRACKETS.get(opening[-1], "")
    words[at] = opening * depth + words[at] + closing * (depth if rng.random() < 0.7 else 0)


# -- documents --------------------------------------------------------------------------------------------------------


def damage_json(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Values of a document are left out, doubled, exchanged, nested, or replaced by ones of another kind or size."""
    if rng.random() < 0.25:
        return (damage_text if rng.random() < 0.5 else damage_bytes)(rng, data, others)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return damage_text(rng, data, others)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        document = _change_value(rng, document)
    text = json.dumps(document)
    if rng.random() < 0.1:
        text = text.replace('"@"', rng.choice(_SPELT), 1)
    return _with_nesting(rng, text)[:LONGEST].encode("utf-8", "surrogatepass")


def _change_value(rng: random.Random, document: Any) -> Any:
    """A document with one value changed."""
    places = list(_places(document))
    if not places:
        return _value(rng)
    holder, key = rng.choice(places)
    match rng.randrange(8):
        case 0:
            del holder[key]
        case 1:
            other, at = rng.choice(places)
            holder[key] = json.loads(json.dumps(other[at])) if _holds(other, at) else None
        case 2:
            holder[key] = [holder[key]]
        case 3:
            if isinstance(holder, list):
                holder[key:key] = [holder[key]] * rng.choice((1, 5, 300))
            else:
                holder[rng.choice(list(holder))] = holder.pop(key)
        case 4:
            holder[key] = "@" if rng.random() < 0.5 else "#nest#"
        case _:
            holder[key] = _like(rng, holder[key]) if rng.random() < 0.6 else _value(rng)
    return document


def _holds(holder: Any, key: Any) -> bool:
    return key < len(holder) if isinstance(holder, list) else key in holder


def _places(document: Any) -> Any:
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in items if isinstance(document, (dict, list)) else ():
        yield document, key
        if isinstance(value, (dict, list)):
            yield from _places(value)


def _like(rng: random.Random, value: Any) -> Any:
    """Another value of the same kind."""
    match value:
        case bool():
            return not value
        case int():
            return rng.choice((*NUMBERS, value + 1, value - 1, -value))
        case float():
            return rng.choice((0.0, -1.0, 1e308, -1e308, 5e-324, float("nan"), float("inf"), float("-inf"), 1e18))
        case str():
            return rng.choice((*_STRINGS, value + "x", value[:-1], value.upper(), hex(rng.choice(NUMBERS))))
        case list():
            return rng.choice(
                ([], value * 2, value[::-1], value[:1] * 70, [rng.choice(NUMBERS)] * rng.choice((1, 4, 70)))
            )
        case dict():
            return rng.choice(({}, dict(list(value.items())[::-1]), {**value, "": None}))
        case _:
            return _value(rng)


def _value(rng: random.Random) -> Any:
    return rng.choice((None, True, False, [], {}, "", 1.5, [[]], [None], {"a": 1}, *NUMBERS, *_STRINGS))


def _with_nesting(rng: random.Random, text: str) -> str:
    if '"#nest#"' not in text:
        return text
    depth = rng.choice((3, 100, 900, 1100, 50000))
    opening, closing = rng.choice((("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")))
    return text.replace('"#nest#"', opening * depth + "0" + closing * depth, 1)


# -- archives ---------------------------------------------------------------------------------------------------------


def damage_pt(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """The pickle, an entry or the container of a saved tensor is changed."""
    choice = rng.random()
    if choice < 0.3:
        return damage_fields(rng, data, others)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    pickled = next(name for name in entries if name.endswith("data.pkl"))
    if choice < 0.85:
        entries[pickled] = _damage_pickle(rng, entries[pickled], entries)
    else:
        name = rng.choice(list(entries))
        entries[name] = damage_bytes(rng, entries[name], others)
    if rng.random() < 0.1:
        del entries[rng.choice(list(entries))]
    if rng.random() < 0.1:
        first = rng.choice(list(entries))
        entries[first + "x"] = entries.pop(first)
    made = io.BytesIO()
    method = zipfile.ZIP_STORED if rng.random() < 0.95 else zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(made, "w", method) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return made.getvalue()


def _damage_pickle(rng: random.Random, data: bytes, entries: dict[str, bytes]) -> bytes:
    """Numbers of the pickle become extreme ones, or its operations something else; sometimes a whole new one."""
    made = bytearray(data)
    if rng.random() < 0.5:
        return _tensor_pickle(rng, len(next((v for k, v in entries.items() if "/data/" in k), b"")))
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(made) + 1)
        numbers = [i for i, code in enumerate(made) if code == ord("J")]
        if numbers and rng.random() < 0.5:
            at = rng.choice(numbers)
            value = rng.choice(NUMBERS)
            if -(2**31) <= value < 2**31:
                made[at : at + 5] = b"J" + struct.pack("<i", value)
            else:
                made[at : at + 5] = b"\x8a\x10" + value.to_bytes(16, "little", signed=True)
        elif rng.random() < 0.5:
            piece = rng.choice(
                (b"(", b"t", b"]", b"}", b"a", b"s", b"u", b"e", b"R", b"Q", b"N", b"\x88", b"h\0", b"q\0")
            )
            made[at:at] = piece * rng.choice((1, 2, 1000))
        else:
            made = bytearray(damage_bytes(rng, bytes(made), [data]))
    return bytes(made)


def _tensor_pickle(rng: random.Random, nbytes: int) -> bytes:
    """A well-formed pickle of a tensor with a shape, strides and offset of any size."""
    rank = rng.choice((0, 1, 2, 2, 3, 4, 5, 30, 65, 2000))
    low = (0, 1, 1, 2, 2, 3, 4, 16, 1000, 10**6, 10**9) if rng.random() < 0.7 else NUMBERS
    shape = [rng.choice(low) for _ in range(rank)]
    strides = [rng.choice((0, 0, 1, 1, 2, 3, 16, *NUMBERS[:14])) for _ in range(rank)]
    offset = rng.choice((0, 0, 0, 1, *NUMBERS))
    count = rng.choice((nbytes // 4, nbytes // 4, *NUMBERS))
    return b"".join(
        (
            b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\n",
            b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpu" + _long(count) + b"tQ" + _long(offset),
            b"(" + b"".join(map(_long, shape)) + b"t(" + b"".join(map(_long, strides)) + b"t",
            b"\x89ccollections\nOrderedDict\n)RtR.",
        )
    )


def _long(value: int) -> bytes:
    return b"\x8a\x10" + value.to_bytes(16, "little", signed=True)


def damage_pack(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """The list of files, a member's head, the tar archive or the compressed bytes of a packed run are changed."""
    choice = rng.random()
    if choice < 0.3:
        return damage_bytes(rng, data, others)
    tar = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data)).read()
    tar = damage_fields(rng, tar, [tar]) if choice < 0.5 else _damage_members(rng, tar)
    return zstandard.ZstdCompressor(level=1).compress(tar)


def _damage_members(rng: random.Random, tar: bytes) -> bytes:
    made = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(tar)) as source,
        tarfile.open(fileobj=made, mode="w", format=tarfile.GNU_FORMAT) as target,
    ):
        for member in source.getmembers():
            file = source.extractfile(member)
            content = file.read() if file else b""
            if member.name == "pack.json" and rng.random() < 0.8:
                content = damage_json(rng, content, [content])
            elif rng.random() < 0.1:
                content = damage_bytes(rng, content, [content])
                if rng.random() < 0.5:
                    member.name = f"objects/{hashlib.sha256(content).hexdigest()}"
            elif rng.random() < 0.05:
                member.name = rng.choice([name for name in _STRINGS if "\0" not in name and "\ud800" not in name])
            elif rng.random() < 0.05:
                member.type = rng.choice((tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE, b"9"))
            member.size = len(content)
            target.addfile(member, io.BytesIO(content))
    return made.getvalue()
