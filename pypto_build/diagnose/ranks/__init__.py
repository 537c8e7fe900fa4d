"""The instruments on runs of several ranks: what a run left of each rank, and the messages between them."""
