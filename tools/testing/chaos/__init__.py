"""`berth chaos`: faults among real processes on loopback, for as long as one likes.

The modules, in the way of a run.

    program         a process of berth that can be killed, stopped and started again, on a leash
    leash           what ends such a process when whoever started it is gone
    lent_folder     a temporary folder that goes at the same time
    troubles        the faults of a run, drawn from a seed
    workload        clients that create and delete pods, and remember what was acknowledged
    chaos           a run, and what must hold in it
    chaos_command   the command, and its report as a page
"""
