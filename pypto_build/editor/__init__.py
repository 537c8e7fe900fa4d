"""Editors and shells: the language server of `.pto`, and what `pypto-build setup` writes for them."""
