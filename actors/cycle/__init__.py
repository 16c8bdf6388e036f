"""The scheduling cycle actor: one pod at a time, from the queue to a node."""
