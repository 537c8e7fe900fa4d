"""What comes first on the PYTHONPATH where a checkout of simpler is to count: nothing but ``sitecustomize``."""
