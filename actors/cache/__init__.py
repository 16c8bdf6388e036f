"""The cache actor: the nodes and the pods on them, including assumed pods."""
