"""One answer to "why does it fail": the instruments in the order of their cost, up to the first certain cause."""
