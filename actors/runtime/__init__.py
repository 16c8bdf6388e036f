"""The actor kernel: mailboxes, asks, actors, workers, the supervisor, the clock. It imports anyio,
and nothing about Kubernetes.
"""
