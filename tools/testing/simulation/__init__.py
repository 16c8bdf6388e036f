"""Simulated clusters: a scenario with faults in virtual time, and the properties that must hold.

The modules, in the way of a story.

    scenario        what happens: steps, faults and schedulers, as data
    chance          a scenario drawn from a seed
    simulation      plays a scenario
    properties      what must hold, read from the writes alone
    held_once       the properties of devices and volumes
    budgets_kept    the property of disruption budgets
    shrinking       the smallest scenario that still breaks a property
    replays         a scenario as a test
    timeline        what happened when: writes, requests, events, queues, attempts
    timeline_page   the same as one HTML file
    worker          a process that plays scenarios
    simulate        the command
"""
