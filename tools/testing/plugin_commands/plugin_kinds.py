"""The classes and tests of new packages, by extension point. CLASS stands for the plugin's name."""

from __future__ import annotations

import msgspec


class PluginKind(msgspec.Struct, frozen=True):
    """The imports from berth.plugin, the base, what the class does, its body, and the body of a
    test of it.
    """

    imports: str
    base: str
    words: str
    body: str
    test: str


_DECIDES = """\
    near = node("near", labels={{"topology.kubernetes.io/zone": "zone-a"}})
    far = node("far", labels={{"topology.kubernetes.io/zone": "zone-b"}})
    {asserts}
"""
_PLACED = """\
    async def story() -> None:
        async with Cluster(pod("web"), nodes=1, plugins=[CLASS]) as cluster:
            await cluster.settled()
            assert cluster.pods().placed_on()
            assert cluster.calls("CLASS", "{method}")

    run_virtually(story)
"""
KINDS = {
    "score": PluginKind(
        "CycleState, NodeInfo, NodeScorePlugin, PodInfo",
        "NodeScorePlugin",
        "Prefers the nodes of a zone.",
        """\
    def score_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> int:
        return 100 if node.labels.get("topology.kubernetes.io/zone") == "zone-a" else 0
""",
        _DECIDES.format(
            asserts='assert decide(pod("web"), [far, near], plugins=[CLASS]).node == "near"'
        ),
    ),
    "filter": PluginKind(
        "SUCCESS, CycleState, NodeFilterPlugin, NodeInfo, PodInfo, Status, unresolvable",
        "NodeFilterPlugin",
        "Keeps pods off the nodes without a zone that it knows.",
        """\
    def filter_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Status:
        if node.labels.get("topology.kubernetes.io/zone") == "zone-a":
            return SUCCESS
        return unresolvable("node(s) were not in zone-a")
""",
        _DECIDES.format(
            asserts='assert decide(pod("web"), [far, near], plugins=[CLASS]).node == "near"'
        ),
    ),
    "pre-enqueue": PluginKind(
        "SUCCESS, Pod, PreEnqueuePlugin, Status, unresolvable",
        "PreEnqueuePlugin",
        "Keeps a pod out of the queue while it has an annotation.",
        """\
    def pre_enqueue(self, pod: Pod) -> Status:
        if "example.com/hold" in pod.metadata.annotations:
            return unresolvable("the pod is on hold")
        return SUCCESS
""",
        _PLACED.format(method="pre_enqueue"),
    ),
    "permit": PluginKind(
        "SUCCESS, Code, CycleState, PermitPlugin, PodInfo, Status",
        "PermitPlugin",
        "Lets pods of a group wait for each other, by the labels example.com/group and size.",
        """\
    def permit(self, state: CycleState, info: PodInfo, node: str) -> tuple[Status, float]:
        labels = info.pod.metadata.labels
        group, size = labels.get("example.com/group"), labels.get("example.com/size", "1")
        mine = [
            waiting.info
            for waiting in self.handle.waiting.each()
            if waiting.info.pod.metadata.labels.get("example.com/group") == group
        ]
        if group is not None and len(mine) + 1 < int(size):
            return Status(Code.WAIT), 60.0
        for other in mine:
            if group is not None:
                self.handle.allow(other)
        return SUCCESS, 0.0
""",
        _PLACED.format(method="permit"),
    ),
    "reserve": PluginKind(
        "SUCCESS, CycleState, PodInfo, ReservePlugin, Status",
        "ReservePlugin",
        "Counts the pods that are on their way to each node.",
        """\
    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        self.handle.log.info("reserved", pod=info.key, node=node)
        return SUCCESS

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None:
        self.handle.log.info("given back", pod=info.key, node=node)
""",
        _PLACED.format(method="reserve"),
    ),
    "pre-bind": PluginKind(
        "SUCCESS, CycleState, PodInfo, PreBindPlugin, Status",
        "PreBindPlugin",
        "Does what is to be done before a pod is bound; it may wait.",
        """\
    async def pre_bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        self.handle.log.info("about to be bound", pod=info.key, node=node)
        return SUCCESS
""",
        _PLACED.format(method="pre_bind"),
    ),
    "post-bind": PluginKind(
        "CycleState, PodInfo, PostBindPlugin",
        "PostBindPlugin",
        "Logs each pod that is bound.",
        """\
    def post_bind(self, state: CycleState, info: PodInfo, node: str) -> None:
        self.handle.log.info("bound", pod=info.key, node=node)
""",
        _PLACED.format(method="post_bind"),
    ),
}
