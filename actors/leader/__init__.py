"""Leader election: holds the lease, and runs the gated part of the scheduler while it does."""
