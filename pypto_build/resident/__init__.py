"""The resident process behind ``pypto-build``: Python, SCons and the rules are loaded once, each command is a fork.

It starts when a command has ended that had to do without it, and ends itself when nobody has asked for an hour, or
when a file that it has loaded changes. Whatever goes wrong with it, the command runs as if it were not there.
"""
