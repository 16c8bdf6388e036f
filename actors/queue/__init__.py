"""The scheduling queue actor: the pending pods, and the events that wake them.

These are the moves between the places of pods (places.py); docs/architecture.md draws them.

    added                  an informer delivers a pod without a node
    popped                 the cycle asks for the next pod: the first active one, or the first in
                           backoff if none is active. A pod whose attempt ended with an error is not
                           taken out of backoff
    deferred               the pod would be popped, it is large (turns.py), and the large pods of
                           its namespace have used their share of the time. It is popped once it has
                           left backoff, not earlier
    attempt failed         the cycle or the binding cycle gives the pod back
    event                  a cluster event, or an update of the pod, that a hint function of a
                           plugin that rejected the pod accepted
    backoff complete       the penalty is over, checked every second
    unschedulable timeout  the pod was parked for longer than
                           `--pod-max-in-unschedulable-pods-duration`, checked every 30 seconds
    activated              a plugin activates the pod
    preemption ended       all victims were asked to go, or one could not be
    deleted or bound       an informer delivers that the pod is gone or has a node

Where several arrows have the same label, the queue chooses the first target that applies:

1. unschedulable, after an attempt, if nothing that happened during the attempt may help the pod
2. gated, if a PreEnqueue plugin rejects the pod or if the pod is held
3. backoff, while the penalty lasts; a pending plugin's event, an activation and the end of a failed
   preemption skip the penalty
4. active

Without the feature gate `SchedulerPopFromBackoffQ`, no pod is popped from backoff, and PreEnqueue
runs when a pod leaves backoff, not when it comes there. Only then does a pod move from backoff to
gated.

A hold for a preemption is not a place. A held pod stays unschedulable until an event would wake it.
DefaultPreemption then gates it until the preemption ends. A pod whose binding is under way counts
as in flight until an informer delivers its node.
"""
