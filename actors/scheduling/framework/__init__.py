"""The scheduling framework's contract: extension points, Status, CycleState, verdicts, cluster
events and hints, PostFilter's values, questions to extenders. Pure.
"""
