"""Editors and shells: the language server of `.pto`, and the files that `pypto-build setup` writes for them."""
