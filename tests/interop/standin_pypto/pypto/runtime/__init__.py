from .runner import RunConfig, execute_compiled, jit  # noqa: F401
