"""What the rules stand on: the workspace of a run, steps and how they are run, and what one artifact asks of them.

Nothing here is a rule: those are the modules above, one each.
"""
