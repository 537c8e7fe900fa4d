"""What the logs of simpler say about a hang or a fault."""
