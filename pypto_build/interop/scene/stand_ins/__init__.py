"""Stand-ins under the names of simpler's packages, for a process that executes scene tests without simpler.

`loading.load_file` puts this directory on the path of that process alone.
"""
