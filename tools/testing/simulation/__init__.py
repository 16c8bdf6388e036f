"""Simulated clusters: a scenario with faults in virtual time, and the properties that must hold.

scenario        what happens: steps, faults and schedulers, as data
chance          a scenario drawn from a seed
faults          the faults of a scenario, between a scheduler and the API server
properties      what must hold, read from the writes alone
simulation      plays a scenario
shrinking       the smallest scenario that still breaks a property
command         berth simulate
"""
