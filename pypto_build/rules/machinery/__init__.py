"""Machinery that the rules share: the workspace of a run, steps and their execution, watching, cleaning, help.

Nothing here is a rule; rules are the modules of the package above, one each.
"""
