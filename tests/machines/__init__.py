"""The supported machines, tried as a newcomer would: README's first command and the loop after it.

`python -m tests.machines` tries every Python and compiler of this machine, `python -m tests.machines.roots NAME DIR`
makes a directory with another distribution, and `--root DIR` tries that one.
"""
