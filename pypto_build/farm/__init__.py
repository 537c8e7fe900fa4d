"""Jobs on the machines of a lab: workers of a Dask cluster that build and replay artifacts.

A job is coarse: one artifact, in a process of its own with limits, so no kernel ends a worker. Its files travel by
their digests, each once to a worker that needs it. A worker that is lost costs a retry; what a
job found is never done again.
"""
