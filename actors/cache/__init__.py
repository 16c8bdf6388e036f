"""The cache actor: what the cluster looks like, assumed pods included."""
