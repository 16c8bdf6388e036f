"""Makes the room that a preemption has promised: victims go, and the preemptor is held back until
they are told to.
"""
