"""`berth record` and `berth replay`: what happened in a cluster, decided once more by another
configuration or version.

    recording       a recording as a file: what is in it, and what is left out
    recorder        follows a cluster, and only reads
    replayed        plays a recording in virtual time, and compares pod by pod
    record_command  the two commands
"""
