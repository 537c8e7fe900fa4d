"""Counts the words and the reading ease of the pages for users: `python docs/dev/words.py` prints a table.

Words are those of the file, as `wc -w` counts them. Reading ease is Flesch's, 206.835 - 1.015 words per sentence - 84.6
syllables per word, of the sentences outside of tables, code and headings. A name in code counts as a word of one
syllable, since a reader takes it in as a sign.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1]
#: Pages that a program writes from the tables of the product, below docs/.
GENERATED = frozenset(
    f"lookup/{name}.md"
    for name in (
        *("agreement", "attributes", "device-rules", "hangs", "instructions"),
        *("findings", "options", "records", "results", "rules", "verbs"),
    )
)
MOST_WORDS, MOST_WORDS_OF_A_RECIPE, MOST_WORDS_OF_A_SENTENCE, LEAST_EASE = 30_000, 400, 25, 50.0

_LEFT_OUT = re.compile(r"^```.*?^```$|<!--.*?-->|^\|.*?$|^#.*?$|^!\[.*?$|<[^>\n]*>", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_CODE = re.compile(r"`[^`]*`")
_END = re.compile(r"[.!?](?:\s|$)|\n\s*\n|\n\s*(?=[-*] |\d+\. )")
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
_VOWELS = re.compile(r"[aeiouy]+")


def pages() -> list[Path]:
    """Return the pages for users, those that are generated and those for contributors left out."""
    parts = [
        DOCS / "index.md",
        *(page for part in ("learn", "do", "lookup", "understand") for page in (DOCS / part).glob("*.md")),
    ]
    return sorted(page for page in parts if page.relative_to(DOCS).as_posix() not in GENERATED)


def words(page: str) -> int:
    """Return how many words a page has."""
    return len(page.split())


def sentences(page: str) -> list[str]:
    """Return the sentences of a page, without tables, code and headings."""
    text = _CODE.sub("code", _LINK.sub(r"\1", _LEFT_OUT.sub("\n\n", page)))
    return [sentence for sentence in _END.split(text) if _WORD.search(sentence)]


def length(sentence: str) -> int:
    """Return how many words a sentence has."""
    return len(_WORD.findall(sentence))


def syllables(word: str) -> int:
    """Return about how many syllables an English word has."""
    low = word.lower()
    groups = len(_VOWELS.findall(low))
    silent = low.endswith(("e", "es", "ed")) and not low.endswith(
        ("le", "les", "ted", "ded", "ses", "xes", "ches", "shes")
    )
    return max(1, groups - silent)


def ease(page: str) -> float:
    """Return Flesch's reading ease of a page; 100 for one without sentences."""
    parts = sentences(page)
    text = [word for sentence in parts for word in _WORD.findall(sentence)]
    if not text:
        return 100.0
    return 206.835 - 1.015 * len(text) / len(parts) - 84.6 * sum(map(syllables, text)) / len(text)


def main() -> int:
    """Print a line for each page, and their sum."""
    total = 0
    for page in pages():
        text = page.read_text(encoding="utf-8")
        total += words(text)
        print(f"{words(text):6} {ease(text):6.1f}  {page.relative_to(DOCS)}")
    print(f"{total:6}         words of all, at most {MOST_WORDS}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
