"""What a pod may cost: counts, never times, so that a slow machine does not fail and a slow change
does.
"""
