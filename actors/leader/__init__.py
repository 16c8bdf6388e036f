"""Leader election: holds the lease, and runs the parts of the scheduler that need it.

`next_step(lease, now, wall)` of its state returns the next step of the election: write the lease,
or wait.

Stopping the tasks is not enough: a write may be delayed before it is sent, and the whole process
may be stopped meanwhile. So the election keeps the time until which this process leads, the tenure.
Every write of the gated part checks it in the turn in which its bytes go to the kernel: after the
waits for the rate limit, for a connection, for a handshake, and for a pause that the server asked
for. The tenure is measured by a clock that goes on while the process is stopped or the machine
sleeps. A write that comes too late raises `DeposedError`, and is undone like any other failed
write; its event and condition are not written either.

    up to `retryPeriod` and `renewDeadline` together
        writes may be sent, and the lease may be renewed
    from then to `leaseDuration`
        requests on their way may arrive; none is sent
    `leaseDuration` after another candidate saw the renewal, or later
        that candidate may take the lease

If `retryPeriod` and `renewDeadline` together are not less than `leaseDuration`, the leader stops
after `renewDeadline` already; kube-scheduler writes on. The lease has whole seconds: the fraction
of `leaseDuration` does not count.

The lock is a Lease or, as long as older schedulers run beside it, a record in an annotation; see
`locks`.

The leader actor runs the election in a second event loop in a second thread, with its own client,
so that a plugin or a huge pod that blocks the scheduler does not cost the lease. The election tells
the actor two things: that the lease is acquired, upon which the gated four start, and that it is
lost (`keep_until_lost` returns), upon which they stop. The main loop has a heartbeat. If it is
missing for longer than `leaseDuration`, the tenure ends and the lease is released, so that a
process that hangs is replaced. A thread cannot help while a call holds the interpreter's lock for
that long.
"""
