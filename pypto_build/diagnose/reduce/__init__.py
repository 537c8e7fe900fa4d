"""The smallest artifact that still fails in the same way: fewer tasks, operations, loops, elements, plainer data."""
