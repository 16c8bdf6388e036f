"""Faults as data: one vocabulary for every place where a cluster can be made to fail.

The modules.

    vocabulary        the faults, the fields of each, and the places that can have it
    fault_files       faults in YAML or JSON, read and written
    faults_in_force   which fault a request, an event or a plugin meets, and what happens when

The places. A simulation and a cluster in a test meet them in memory (testing/faulty_access.py), the
clients of `berth apiserver --faults` on the wire (apiserver/faulty_server.py), and the processes of
`berth chaos` on the wire and by signals.
"""
