"""What hollow containers say and do: scripts in annotations of a pod, or for selected pods.

container_states.py  the container that a request means, and if it runs
log_options.py       the options of a request for a log
logs.py              the lines of a log, with their times
commands.py          tables of commands: what a command prints, and how it exits
small_programs.py    the commands that need no script: what follows from the pod
ports.py             the ports of this machine that stand for ports of a pod
script_rules.py      which script is a pod's: its annotation's, or the first rule's
"""
