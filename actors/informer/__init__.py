"""The informer actor: lists and watches one kind, and routes its changes.

The input of its state is what a source delivers, not messages: it has a method for each kind of
input, which returns the effects. The method for lists yields them object by object, so that other
tasks can run in between.

Objects are read as Go reads them. A field that is null is absent, whatever its kind; a null in a
list or a map is the zero value. One decoding reads nearly every object; if that fails, each value
is read by itself, by its type (reading.py). An object cannot be read if it then has a wrong type,
an integer beyond its bounds, a malformed quantity or time, no name, or (a pod) no uid. It goes no
further than the informer (stand_ins.py):

    a node                 its last readable state counts, and it takes no new pods: the filter
                           `NodeUnreadable`, with which every profile begins, rejects it. A node
                           that was never read does not exist
    a pod on a node        it keeps the room of its last readable state. One that was never read
                           takes the room of those requests that can be read
    a pending pod          it is not scheduled. If it is given a node meanwhile, it takes its room
                           there
    any other object that plugins look up
        its last readable state counts, or the part that can be read
    any object that is deleted
        it is gone, by its name, or by its uid if nothing else can be read

Such an object is named once in the log (`object cannot be read`), and as long as it lasts in the
metric `berth_unreadable_objects` and by `berth debug unreadable` (docs/debugging.md). A list goes
on with the other objects. Once the object can be read again, it counts as if it had always been
readable; a node then takes pods again and counts as new.

Informers run for pods, nodes, and the kinds that enabled plugins look up (`lookups`,
docs/plugins.md) or wait for. The API server leaves out pods that have finished: for the scheduler
they are gone. A kind that the API server does not have (404) counts as an empty list and is looked
for once a minute. If the API server refuses to list a kind (401, 403), the log names it once a
minute among the missing rights (docs/operating.md), and `/readyz` (docs/configuration.md) names it
too. Nodes and pods have to be listed before anything starts; the other kinds hold nothing up.

A kind that may not be listed is not a kind without objects: a plugin that looks it up gets an
error, and the attempt ends with it. So without the right to list budgets nobody is preempted, while
pods that fit are placed. Only the default spreading of `defaultingType: System`, which is a mere
preference, leaves out the objects that it cannot look up.
"""
