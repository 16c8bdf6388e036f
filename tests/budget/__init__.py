"""Budgets for the cost of a pod. They count calls, so a slow change fails and a slow machine does
not.
"""
