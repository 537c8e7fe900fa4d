"""A module during typing: incomplete text has an outline too, and findings stay for unchanged text.

`LiveModule.update(text)` finds what `check_module(parse(text))` finds, and accepts text that cannot be parsed. Its time
depends on the change: an operation is read, resolved and checked again when its text or a used value has changed.
"""
