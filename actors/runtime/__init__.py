"""The actor kernel: mailboxes, asks, actors, workers, the supervisor, the clock. It imports anyio
and the logger, and nothing about Kubernetes.
"""
