"""`berth top`: the cluster and its scheduler on a terminal."""
