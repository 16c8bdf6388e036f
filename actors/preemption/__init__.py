"""Preemption: evicts the victims that the decision chose (scheduling/plugins/default_preemption),
and holds the preemptor back until all evictions are requested.

The state needs nothing of its own between two messages, only functions: each preemption under way
is a few numbers that its workers share.
"""
