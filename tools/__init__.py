"""The workshop: the rest of the world around the scheduler. This is the map of the tree.

The rooms.

    kubernetes/   what Kubernetes' other programs decide, in upstream's words: pure, without event
                  loop, I/O or chance; the counterpart of actors/scheduling
    cluster/      what plays them: an API server over HTTP, the runner of the controllers, hollow
                  kubelets and drivers
    answers/      what answers people, about any cluster: explain, whatif, debug, doctor, shadow
    views/        what people look at: the commands, the page in a browser, `berth top`
    testing/      a cluster to try things on: in anybody's test, in a seed, and `berth demo`
    bench/        measurements

Beside them: docs/ makes the pictures and the site of the documentation, docs/examples has plugins
to copy from, and dev.py runs the project's own tasks.

Who may import whom; import-linter checks it in pyproject.toml.

    {bench | testing | docs} > {cluster | views > answers} > kubernetes
        > actors.scheduling.kube, cel

So answers know nothing of a toy cluster, and the embedded API server shares no rule of decisions
with the scheduler.

Inside kubernetes/.

    api/           the API server: what is served, and what becomes of a write
    workloads/     Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs, CronJobs
    nodes/         nodes that fail, and the pods on them
    storage/       claims, volumes, attachments
    devices/       claims and slices of dynamic resource allocation
    disruption/    disruption budgets
    autoscaling/   the horizontal pod autoscaler
    kubelet/       containers, images, pressure/, resizing/, stages/, scripts/
    objects/       the structs of objects, what is read from them and written to them

Where to find what.

    a write is admitted                kubernetes/api/writes/admission_order.py: ORDER
    a manager comes to own a field     kubernetes/api/ownership/updates.py, applies.py
    an eviction asks the budgets       kubernetes/api/writes/evictions.py
    `kubectl get` gets its columns     kubernetes/api/tables/, *_columns.py
    a rollout is decided               kubernetes/workloads/deployment/rollout.py
    an eviction is ranked              kubernetes/kubelet/pressure/eviction_ranking.py
    a kubelet kills for memory         kubernetes/kubelet/pressure/oom.py
    a request over HTTP is answered    cluster/apiserver/app.py
    it is performed, or takes long     cluster/apiserver/handlers.py, long_requests.py
    a log is read, a command runs      cluster/apiserver/streams/pod_streams.py
    a change wakes a controller        cluster/controllers/controller_table.py
    the controllers run                cluster/controllers/controller_manager.py
    explain decides about a pod        answers/explain/decider.py
    a reason gets its code             answers/explain/reasons/reason_table.py: REASONS
    explain's suggestion is proven     answers/explain/changes/proof_search.py, in world.py
    a change is tried and undone       answers/explain/tried_cluster.py
    a what-if is tried                 answers/whatif/trial.py
    what a verb of a what-if does      answers/whatif/verbs.py: VERBS
    a what-if's drain asks the budgets answers/whatif/tried_budgets.py
    the page's feed is made            answers/feed/feed.py
    a fault is met                     cluster/faults/vocabulary.py: FAULTS; in memory by
                                       testing/faulty_access.py, on the wire by
                                       cluster/apiserver/faulty_wire.py
    a test gets its cluster            testing/cluster.py; pytest_berth has the fixtures
    the page is served                 views/page/page.py, by page_server.py
"""
