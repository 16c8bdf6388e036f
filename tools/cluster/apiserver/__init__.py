"""The embedded API server: HTTP, watches and the journal around tools/kubernetes/api."""
