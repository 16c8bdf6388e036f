"""The scheduling framework: extension points, Status, CycleState, events, registry, profile runner.
Pure.
"""
