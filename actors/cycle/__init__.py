"""The scheduling cycle: takes one pod at a time from the queue, and finds a node for it."""
