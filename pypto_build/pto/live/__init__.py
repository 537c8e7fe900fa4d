"""A module while it is typed: half-typed text has an outline too, and findings stay where nothing changed.

`LiveModule.update(text)` finds what `check_module(parse(text))` finds, and also something for text that cannot be
parsed, in a time that depends on what changed: an operation is read, resolved and checked again when its text or
something it uses has changed.
"""
