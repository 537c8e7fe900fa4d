"""The resident process behind ``scons`` and ``pypto-build``: it loads their code once and is forked for each command.

A command that ran without it starts it at its end. It ends after a quarter of an hour without a command, and when a
file that it has loaded changes. If anything goes wrong with it, the command runs without it.
"""
