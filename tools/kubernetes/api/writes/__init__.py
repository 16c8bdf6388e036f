"""Writes to the API server. The registry applies them; the other modules stand on their way.

A write is decoded, gets its defaults and what admission gives it, and is validated; then limits,
policies and quotas may refuse it.
"""
