"""The resident process behind ``scons`` and ``pypto-build``: what they need is loaded once, each command is a fork.

It starts when a command has ended that had to do without it, and ends itself when nobody has asked for a
quarter of an hour, or when a file that it has loaded changes. Whatever goes wrong with it, the command runs as if it
were not there.
"""
