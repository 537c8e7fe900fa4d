"""Text to tokens: one regular expression, run by `findall`.

A token is a plain string, its kind told by its first character. Offsets are not kept: they are found again by a second
run when an error or a source line is asked for, which keeps the common path at C speed. A whole `!pto.…<…>` type or
`#pto.…<…>` attribute without nested brackets is one token, since modules consist mostly of repeated types.
"""

from __future__ import annotations

import re

TOKEN = re.compile(
    r"[ \t\r\n]*(?://[^\n]*[ \t\r\n]*)*"  # blanks and comments
    r"("
    r"%[\w$.\-]+(?:[:#]\d+)?"  # %value, %pack:2, %pack#1
    r"|[!#][A-Za-z_][\w.$]*(?:<[^<>]*>)?"  # !type<…>, #attribute<…>
    r"|[A-Za-z_][\w$.]*"  # word, operation.name
    r"|->"
    r"|-?(?:0x[0-9A-Fa-f]+|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)"  # number
    r'|"(?:[^"\\\n]|\\.)*"'  # string
    r'|@(?:[\w$.\-]+|"(?:[^"\\\n]|\\.)*")'  # @symbol
    r"|\^[\w$.\-]+"  # ^block
    r"|[^ \t\r\n]"  # punctuation, or a character that fits nothing
    r"|\Z"  # lets a comment at the end of the text be skipped like any other
    r")",
    re.ASCII,
)

END = ""  # the token after the last one


def tokenize(text: str) -> list[str]:
    """The tokens of `text`, then END."""
    tokens: list[str] = TOKEN.findall(text)
    tokens.append(END)
    return tokens


def token_offsets(text: str) -> list[int]:
    """Where each token of `tokenize(text)` starts."""
    offsets = [found.start(1) for found in TOKEN.finditer(text)]
    offsets.append(len(text.rstrip()))
    return offsets
