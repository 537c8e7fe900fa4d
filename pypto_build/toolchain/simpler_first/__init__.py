"""First directory on PYTHONPATH if a checkout of simpler is to be used; it has only ``sitecustomize``."""
