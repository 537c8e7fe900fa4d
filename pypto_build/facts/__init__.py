"""Facts that every room reads and none may repeat: element types, platforms, options of a run, kinds of faults.

Data only. Nothing here imports anything else of ours, or does any work.
"""
