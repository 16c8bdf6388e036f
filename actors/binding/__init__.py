"""Binding: takes a placed pod from its wait on Permit to a bound pod, or undoes the placement; many
at a time.

The state has a method for each step of the binding cycle, because the binding cycle is a task that
continues after each wait. Plugins call the same object through `handle.waiting` (allow, reject,
preempt, look), outside the actor's mailbox: they have to know at once whether a pod could still be
allowed or stopped. `/debug` reads it too, because the binding actor does not run without the lease.
Every other actor asks by message: the preemption actor by StopBinding, the cache by RejectWaiting.
"""
