"""What a process that executes scene tests finds under the names of simpler's packages, where simpler is not installed.

`loading.load_file` puts this directory on the path of that process, and of no other.
"""
