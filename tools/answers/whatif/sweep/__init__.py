"""Sweeps: a what-if for each fleet, scheduler configuration and seed, on all cores or machines.

`definition` reads what to compare, `plan` gathers what the what-ifs read, `cell` is one of them,
`pool` and `on_ray` run them, `results` keeps them in a file, and `answer` and `report` tell them.
"""
