"""Many chips on one machine: a distributed artifact's driver, a process a rank, windows in shared memory.

`engine` is what a replay is given; `host` runs in the replay's child process: it executes the driver against
`stand_ins`, learns from it what is dispatched where (`dispatches`), starts a process for each rank (`rank`), and hands
out dispatches as they become ready.
"""
