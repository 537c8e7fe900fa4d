"""What the rules stand on: the workspace of a run, steps and how they are run, watching, cleaning, help.

Nothing here is a rule; rules are the modules of the package above, one each.
"""
