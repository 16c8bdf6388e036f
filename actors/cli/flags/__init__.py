"""The command line of `berth run`, which is kube-scheduler's.

`table` lists the flags, `kinds` reads and prints their values as Go does, `command` turns the table
into a click command, and `settings` makes the options of the process from the flags.
"""
