"""Simulated clusters: a scenario with faults in virtual time, and the properties that must hold.

The modules, in the way of a story.

    scenario        what happens: steps, faults and schedulers, as data
    chance          a scenario drawn from a seed
    simulation      plays a scenario
    properties      what must hold, read from the writes alone
    shrinking       the smallest scenario that still breaks a property
    worker          a process that plays scenarios
    simulate        the command
"""
