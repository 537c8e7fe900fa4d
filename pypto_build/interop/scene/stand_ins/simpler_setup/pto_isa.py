"""Stands in for what fetches pto-isa, which nothing needs here."""


def ensure_pto_isa_root(*_: object, **__: object) -> str:
    """Where its headers would be."""
    return ""
