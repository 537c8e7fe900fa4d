"""Jobs on the machines of a lab: workers of a Dask cluster that build and replay artifacts.

A job is coarse: one artifact, in its own process with limits, so that no kernel ends a worker. Its files travel by
their digests, each once to a worker that needs it. A lost worker costs a retry; finished jobs are never repeated.
"""
