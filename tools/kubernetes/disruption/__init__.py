"""Disruption budgets: how many pods of each may be evicted now."""
