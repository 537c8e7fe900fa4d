"""The smallest artifact that still fails in the same way: fewer tasks, operations, loops, elements, plainer data."""

#: What KEEP= is for failures that nothing has to be built and run for.
BUILD_ERROR, GOLDEN_ERROR = BEFORE_A_RUN = ("build_error", "golden_error")
