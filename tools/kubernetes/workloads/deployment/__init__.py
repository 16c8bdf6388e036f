"""The Deployment controller, its ReplicaSets, their sizes, and its conditions."""
