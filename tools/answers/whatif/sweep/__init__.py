"""Sweeps: a what-if for each fleet, scheduler configuration and seed, on all cores or machines.

`definition` reads what to compare, `plan` gathers what the what-ifs read, `cell` is one of them,
`process_pool` and `ray_pool` run them, `results_file` keeps their results, `cheapest_fleet` chooses
one, and `sweep_report` and `fleet_plot` tell them.
"""
