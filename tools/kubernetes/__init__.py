"""What Kubernetes' other programs decide: the API server, the controllers, the kubelets.

The counterpart of actors/scheduling: functions and states in upstream's words, without event loop,
I/O, clock or chance, but for the table types.txt, which is read once. tools/cluster runs them. Each
mirrors a part of Kubernetes, which its docstring names. The rooms:

    api/           what is served, and what becomes of a write
    workloads/     Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs, CronJobs
    nodes/         nodes that fail, and the pods on them
    storage/       claims, volumes, attachments
    devices/       claims and slices of dynamic resource allocation
    disruption/    disruption budgets
    autoscaling/   the horizontal pod autoscaler
    kubelet/       containers, images, pressure, resizes, stages
    objects/       the structs of objects, what is read from them and written to them

object_index holds the objects that controllers follow, garbage_collector those without an owner.
"""
