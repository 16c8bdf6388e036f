"""What tests share. Look here before writing a builder, a fake or a clock.

Objects
    documents, structs      pods, nodes and other objects, as a manifest or as a struct
    custom_kinds            definitions of custom kinds, and their objects
    devices, storage        claims, slices, volumes and classes; one plugin's answers about them
    snapshots, handle       snapshots of documents; handles of plugins that write nothing
    odd, cases, expressions, messages    broken objects, tables of cases, device selectors, messages
Parts alone
    queue, queue_model      the queue, and a slow model of it
    hints, changes          hints of plugins; what would change a decision
    profiles, answering     profiles with some plugins; plugins that answer as a test says
    inbox, instruments, disk, zero_values    mailboxes, metrics, a failing disk, defaults of structs
Schedulers and clusters in one process
    pipeline                queue, cache, cycle, binding and preemption without an API server
    daemon, virtual_cluster the whole scheduler, with an API server in memory that may fail
    small_api, reviewer, leases    API servers in memory: any answer, reviews of rights, one lease
    fake_calls              a client without a server: each request asks the test
    stores                  the store of an embedded API server, whose uids repeat
    cluster, embedded       the embedded API server with controllers and kubelets; by HTTP, by calls
    pressure, pod_lives, top, page, week, day    kubelets, views, and long stories
Processes and servers
    daemons, secured        clusters whose schedulers are processes; with RBAC
    processes, forks, fork_server, whatif_workers, terminal, programs, kubectl, manifest_folders,
    plain_diff, containerfile    processes of berth, and other programs
    installations           distributions of berth, installed in environments of their own
    hollow_streams          API servers with running pods, and the streams into them
    serving, thread_server, proxy, extender, certificates, rbac, rights    HTTP, TLS and rights
Time and cost
    clock, virtual_loop     virtual time for actors, and for what waits on sockets
    tasks                   tasks beside a block
    paced_loop, paced_berth time that runs faster than real time
    calls, call_counts, work, busy, measured    calls, instructions, lines reached
    logs                           the lines that the code under test logs
The run of pytest
    examples, left_out, waits_first, whole_run    examples to draw, tests left out, order, rights
"""
