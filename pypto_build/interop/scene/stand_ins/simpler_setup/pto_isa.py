"""Stands in for the download of pto-isa, which is not needed here."""


def ensure_pto_isa_root(*_: object, **__: object) -> str:
    """Return the empty path, in place of the directory of headers."""
    return ""
