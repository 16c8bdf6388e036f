"""berth: a Kubernetes scheduler as a tree of actors. This is the map of the tree.

The actors. One folder each: state.py decides and is pure, actor.py waits. The cycle decides with
scheduling/, and the server decides nothing.

    informer/     lists and watches each kind of object, and passes on what changed
    queue/        the pending pods, and when one that waits is tried again (waking.py)
    cache/        the nodes with their pods, and the snapshot for the decision
    cycle/        takes one pod at a time from the queue, and finds a node for it
    binding/      waits on Permit, binds the pod, or undoes the binding
    preemption/   evicts the victims that the decision chose
    leader/       holds the lease, and runs the actors that need it
    recorder/     writes events and conditions
    server/       health, metrics and debug pages over HTTP

The form of a state. Messages change the cache and the queue: `handle(message, now) -> effects`, of
which the cache needs no time. The recorder has an outbox, which `handle` fills and writers empty.
Informer, leader and binding are driven by answers of the API server and calls of plugins, with a
method for each that returns what to do. Cycle, preemption and server own no state.

The library that they decide with. It has no event loop, no I/O, no clock and no chance.

    scheduling/decision/    chooses a node: algorithm.py, from PreFilter to the chosen node; recall/
                            keeps answers from pod to pod
    scheduling/plugins/     the in-tree plugins, one file or folder each
    scheduling/framework/   the contract with plugins: extension points, statuses, events, hints,
                            the logger
    scheduling/model/       pods and nodes as the decision needs them, the snapshot and its columns
    scheduling/cel/         the language of device selectors: compiles and evaluates expressions
    scheduling/kube/        the objects of Kubernetes, as far as scheduling reads them

What connects them.

    messages/       every message that crosses a mailbox, one module a mailbox
    mailboxes       the mailbox of each actor that takes messages
    attempt/        how an attempt ends: what follows from one that failed, the events about pods,
                    the log of decisions
    wiring/         details of the parts: the profiles in use and their swap, the kinds that are
                    followed, the reloader of the configuration, what the server shows
    system          makes all the parts, and puts them in their order: the page to read for the
                    whole process

The machinery and the outside world.

    runtime/        the actor kernel: mailbox, ask, actor, workers, supervisor, clock
    client/         the client of the API server and of extenders
    telemetry/      logs, kube-scheduler's metrics, traces
    process/        signals, the watchdog, the garbage collector, the version
    configuration/  reads the configuration file, and finds packages with plugins
    cli/            the `berth` command with `berth run` and `berth config`, and the flags

A module imports only modules of lower floors; import-linter checks the floors in pyproject.toml.
"""
