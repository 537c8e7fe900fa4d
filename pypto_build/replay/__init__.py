"""One run of an artifact: bind data, launch a runtime, compare, write the verdict."""
