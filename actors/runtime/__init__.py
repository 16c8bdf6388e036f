"""The actor kernel: mailboxes, asks, actors, supervision, the clock. It knows anyio and nothing of
Kubernetes.
"""
