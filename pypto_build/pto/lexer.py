"""Text to tokens: one regular expression, run by `findall`.

A token is a plain string; its first character tells its kind. Offsets are not kept: an error or a source line finds
them by a second run, which keeps the common path at C speed. A whole `!pto.…<…>` type or `#pto.…<…>` attribute without
nested brackets is one token, since modules consist mostly of repeated types.
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
    """Return the offset of every token of `tokenize(text)`, and the offset of the text's end."""
    offsets = [token.start(1) for token in TOKEN.finditer(text)]
    offsets.append(len(text.rstrip()))
    return offsets
