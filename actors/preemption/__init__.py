"""Preemption: evicts the victims that the decision chose (scheduling/plugins/default_preemption),
and holds the preemptor back until all of them were asked to go.
"""
