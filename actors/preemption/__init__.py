"""Preemption: evicts the victims that the decision chose (scheduling/plugins/default_preemption),
and holds the preemptor back until the evictions have been requested.
"""
