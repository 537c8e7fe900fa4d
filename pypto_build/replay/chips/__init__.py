"""Simulates many chips on one machine: a distributed artifact's driver, one process a rank, windows in shared memory.

A replay gets `engine`. `host` runs in the replay's child process. It executes the `driver` against stand-ins, records
its dispatches (`dispatches`), starts a process for each rank (`rank`), and sends out dispatches as they become ready.
"""
