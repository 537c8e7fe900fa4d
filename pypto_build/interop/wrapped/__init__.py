"""What `pypto-build wrap` puts first on the PYTHONPATH of a script: nothing but ``sitecustomize``."""
