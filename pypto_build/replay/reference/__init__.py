"""RUNTIME=torch: the compiled orchestration submits, PyTorch made from the .pto modules executes each task."""
