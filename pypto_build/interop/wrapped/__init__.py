"""The directory that `pypto-build wrap` puts first on a script's PYTHONPATH; it contains only ``sitecustomize``."""
