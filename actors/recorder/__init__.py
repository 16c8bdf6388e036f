"""The recorder: writes events about objects and conditions of pods; no other actor waits for it.

Its state is an outbox. `handle(message, now, wall)` has no effects: the writers take work from the
outbox when they are free, and report how it ended.

Conditions are written to the pod as it was at the attempt. If the pod has changed since, it is read
again, and left alone if it has a node or is gone. After a conflict, an error inside the API server
or a refused connection the write is tried again three times within 0.4 seconds, as in
kube-scheduler. The condition of a newer attempt replaces one that still waits, but keeps its
nomination if it has none itself. A condition that the pod has already is not written.

Events are events.k8s.io/v1, as kube-scheduler writes them. Two facts are equal if their reporter,
reason, action, type and objects are equal, down to the resourceVersions; the note does not count.
The first fact makes a new event. The second makes the event a series of 2, which is written at
once. After that the fact is counted in memory, and the count is written every half hour and when
the fact has not recurred for six minutes. The note of an event never changes, because the API
server would refuse that. So a user reads this of a pod that fits nowhere:

- The first attempt makes an event, and its condition changes the pod. The second attempt therefore
  makes another event, and those after it are its series.
- When the reason changes, the attempt that finds this out is counted in the series with the old
  note. It writes the new condition too, which changes the pod, so the next attempt makes an event
  with the new note. The condition is always that of the last attempt.

A note of more than 1,024 bytes is cut and ends in ` ...`. So is the message of a condition of more
than 32,768 characters; kube-scheduler has no limit there. The last 16,384 facts are remembered. The
events of leader election are written to core/v1 and have no action, as those of kube-scheduler. If
the API server has no events.k8s.io (before Kubernetes 1.19), all events are written to core/v1.

16 writes are under way at a time, in the order that state.py says: in a flood of failures users
read what the latest attempts found, and nothing waits for ever. At most one condition for each pod
waits, 100,000 conditions without a new nomination, and 10,000 events.

A change of leader. On an orderly stop the recorder has two seconds to write what waits, in this
order. The rest is lost, as is everything that waits when a leader is killed: the next leader knows
only what the API server has. It makes an attempt for every pending pod that is not gated, and
writes the result, unless the pod has it already:

    a condition            its first attempt for the pod writes one, also for a pod that is parked
                           afterwards
    the end of a nomination
        the pod counts as nominated until its first attempt fails, which ends the nomination
    a nomination, and no victim was evicted yet
        it preempts as if for the first time
    a nomination, and some victims were evicted
        it preempts again: pods that are being deleted already count as victims, and are not evicted
        again. If the choice falls on another node, more pods go for the same preemptor, as with
        kube-scheduler. This is rare: a nomination goes before all other writes, and a victim gets
        its condition before it is deleted
    an event, or the last count of a series
        nothing: events are best effort
"""
