"""Pods with volumes in random histories, with a volume controller, lost and late writes, and late
watches.

Claims, volumes, pods and nodes come, change and go, and somebody else binds pods too. No pod is
bound to a node that a volume of its claims does not allow, no volume has two claims, and in the end
nothing is assumed and every pod that can run does.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import anyio
from hypothesis import given
from hypothesis import strategies as st

from berth.actors.scheduling.kube.claims import is_fully_bound
from berth.actors.scheduling.kube.kinds import NODES
from berth.plugin import Node, PersistentVolume, PersistentVolumeClaim, Pod
from tests.integration.test_volume_binding import (
    CLAIMS,
    CONTROLLED,
    SELECTED,
    VOLUMES,
    Controller,
    claim,
    settle,
    storage_class,
    user,
    volume,
)
from tests.kit.documents import Document
from tests.kit.examples import examples
from tests.kit.virtual_cluster import Fault, VirtualCluster, node, virtual_cluster

HOSTS = ("a", "b", "c")
STEPS = 60
LAGS = (0.0, 0.1, 3.0, 30.0)
KINDS = (PersistentVolume, PersistentVolumeClaim, Pod, Node)


def host(volume: PersistentVolume) -> str:
    """Returns the only node that the volume allows; "" if it allows all."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return ""
    return affinity.required.node_selector_terms[0].match_expressions[0].values[0]


class History:
    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.rate = self.rng.choice((0.0, 0.1, 0.4))  # of writes that fail
        self.ended = False
        self.serial = 0
        self.uids: dict[str, dict[str, str]] = {}  # pod -> its claims' names and uids
        self.bound = 0
        self.cluster: VirtualCluster

    def fault(self, method: str, path: str, body: object) -> Fault:
        if method == "POST" and path.endswith("/binding"):
            assert isinstance(body, str)
            self.check_binding(path.split("/")[-2], body)
        if self.ended or "persistentvolume" not in path or self.rng.random() >= self.rate:
            return Fault.NONE
        return self.rng.choice((Fault.REFUSED, Fault.LOST, Fault.UNANSWERED, Fault.DELAYED))

    def check_binding(self, pod: str, node: str) -> None:
        """Checks a bound pod's volumes, except those of claims that were made again meanwhile."""
        self.bound += 1
        for name, uid in self.uids[pod].items():
            pvc = self.claims.get(name)
            if pvc is None or pvc.metadata.uid != uid or pod not in self.cluster.pods():
                continue
            pv = self.volumes.get(pvc.spec.volume_name)
            assert pv is None or host(pv) in ("", node), (pod, node, pv)

    @property
    def claims(self) -> dict[str, PersistentVolumeClaim]:
        return {name: it for (_, name), it in self.cluster.objects(CLAIMS).items()}

    @property
    def volumes(self) -> dict[str, PersistentVolume]:
        return {name: it for (_, name), it in self.cluster.objects(VOLUMES).items()}

    # ------------------------------------------------------------------------------ what happens

    async def step(self) -> None:
        rng, cluster = self.rng, self.cluster
        self.serial += 1
        what = rng.choices(
            ("volume", "claim", "pod", "no pod", "no volume", "touch", "no claim", "node", "bind"),
            (20, 20, 25, 7, 6, 12, 5, 2, 3),
        )[0]
        if what == "volume":
            await cluster.create(volume(f"v{self.serial}", rng.choice((*HOSTS, ""))))
        elif what == "claim":
            await cluster.create(claim(f"c{self.serial}", rng.choice(("local", "made"))))
        elif what == "pod":
            await self.pod(f"p{self.serial}")
        elif what == "no pod" and self.uids:
            name = rng.choice(sorted(self.uids))
            await cluster.delete_pod(name)
            del self.uids[name]
        elif what == "no volume" and self.volumes:
            await cluster.delete("PersistentVolume", rng.choice(sorted(self.volumes)))
        elif what == "touch":
            await self.touch()
        elif what == "no claim" and self.claims:
            name = rng.choice(sorted(self.claims))
            await cluster.delete("PersistentVolumeClaim", name, "default")
            if rng.random() < 0.5:
                await cluster.create(claim(name, rng.choice(("local", "made"))))
        elif what == "node":
            name = rng.choice(HOSTS)
            await cluster.delete("Node", name)
            await cluster.clock.advance(rng.choice((0.1, 5.0)))
            await cluster.create(labelled(name, rng.choice((3, 20))))
        elif what == "bind":
            waiting = [p.metadata for p in cluster.pods().values() if not p.spec.node_name]
            if waiting:
                metadata = rng.choice(waiting)
                await cluster.api.bind("default", metadata.name, metadata.uid, rng.choice(HOSTS))

    async def pod(self, name: str) -> None:
        most = min(len(self.claims), self.rng.choice((0, 1, 1, 2)))
        claims = self.rng.sample(sorted(self.claims), k=most)
        document = user(name, *claims)
        document["spec"]["priorityClassName"] = f"priority-{self.rng.choice((0, 0, 5, 10))}"
        self.uids[name] = {each: self.claims[each].metadata.uid for each in claims}
        await self.cluster.create(document)

    async def touch(self) -> None:
        label = {"metadata": {"labels": {"x": str(self.serial)}}}
        controller = Controller(self.cluster)
        if self.volumes:
            await controller.patch(
                f"/api/v1/persistentvolumes/{self.rng.choice(sorted(self.volumes))}", label
            )
        if self.claims:
            await controller.patch_claim(self.rng.choice(sorted(self.claims)), label)

    async def control(self) -> None:
        """Acts as the volume controller: gives a claim any of its volumes, and frees the others."""
        controller, cluster = Controller(self.cluster), self.cluster
        for name, pvc in self.claims.items():
            if self.rng.random() < 0.5 or is_fully_bound(pvc):
                continue
            mine = sorted(n for n, v in self.volumes.items() if uid_of_claim(v) == pvc.metadata.uid)
            if mine:
                await controller.bind(name, self.rng.choice(mine))
            elif pvc.spec.storage_class_name == "made" and SELECTED in pvc.metadata.annotations:
                if self.ended or self.rng.random() < 0.8:
                    if f"for-{name}" in self.volumes:
                        await cluster.delete("PersistentVolume", f"for-{name}")
                    await controller.provision(name)
                else:
                    none = {"metadata": {"annotations": {SELECTED: None}}}
                    await controller.patch_claim(name, none)
        users = {pvc.metadata.uid: pvc for pvc in self.claims.values()}
        for name, pv in self.volumes.items():
            if not uid_of_claim(pv):
                continue
            owner = users.get(uid_of_claim(pv))
            if owner is None:
                await cluster.delete("PersistentVolume", name)
            elif is_fully_bound(owner) and owner.spec.volume_name != name:
                freed: Document = {
                    "metadata": {"annotations": {CONTROLLED: None}},
                    "spec": {"claimRef": None},
                    "status": {"phase": "Available"},
                }
                await controller.patch(f"/api/v1/persistentvolumes/{name}", freed)

    # ---------------------------------------------------------------------------------- the end

    def can_run(self, pod: Pod) -> list[str]:
        """Returns the nodes where a pod with at most one claim can run."""
        used = Counter(each.spec.node_name for each in self.cluster.pods().values())
        nominated = {each.status.nominated_node_name for each in self.cluster.pods().values()}
        names = self.uids[pod.metadata.name]
        if len(names) > 1 or not names.keys() <= self.claims.keys():
            return []
        possible = []
        for name in HOSTS:
            on: Node = self.cluster.objects(NODES)["", name]
            room = int(on.status.allocatable["cpu"]) - used[name]
            # Another pod may keep its nomination there although it cannot run now.
            if room > 0 and name not in nominated and all(self.has(it, name) for it in names):
                possible.append(name)
        return possible

    def has(self, name: str, node: str) -> bool:
        """True if the claim can have a volume on the node."""
        pvc = self.claims[name]
        if is_fully_bound(pvc):
            pv = self.volumes.get(pvc.spec.volume_name)
            return pv is not None and host(pv) in ("", node)
        if pvc.spec.storage_class_name == "made":
            return pvc.metadata.annotations.get(SELECTED, node) == node
        reserved = [v for v in self.volumes.values() if uid_of_claim(v) == pvc.metadata.uid]
        free = [v for v in self.volumes.values() if v.spec.claim_ref is None]
        return any(host(pv) in ("", node) for pv in reserved or free)


def uid_of_claim(volume: PersistentVolume) -> str:
    return "" if volume.spec.claim_ref is None else volume.spec.claim_ref.uid


def labelled(name: str, cpu: int) -> Document:
    document = node(name, cpu)
    document["metadata"]["labels"] = {"host": name}
    return document


@examples(0.05)
@given(seed=st.integers(0, 1 << 32))
def test_volumes_in_a_random_history(seed: int) -> None:
    anyio.run(play, seed)


async def play(seed: int) -> None:
    history = History(seed)
    rng = history.rng
    lags = {kind: rng.choice(LAGS if kind is not Node else LAGS[:2]) for kind in KINDS}
    async with virtual_cluster(
        late=rng.choice((0.0, 0.2, 1.0)),
        fault=history.fault,
        args={"VolumeBinding": {"bindTimeoutSeconds": rng.choice((5, 60))}},
        lags=lags,
    ) as cluster:
        history.cluster = cluster
        for name in HOSTS:
            await cluster.create(labelled(name, rng.choice((3, 20))))
        await cluster.create(storage_class("local", "kubernetes.io/no-provisioner"))
        await cluster.create(storage_class("made", "driver"))
        for _ in range(STEPS):
            for _ in range(rng.choice((1, 1, 3))):
                await history.step()
            await cluster.clock.advance(rng.choice((0.0, 0.05, 0.3, 1.0, 5.0)))
            await history.control()
        history.ended = True
        for _ in range(200):
            await cluster.clock.advance(4.0)
            await history.control()
        settle(cluster)
        taken = Counter(it.spec.volume_name for it in history.claims.values())
        assert all(number == 1 for name, number in taken.items() if name)
        pending = [pod for pod in cluster.pods().values() if not pod.spec.node_name]
        left = {it.metadata.name: history.can_run(it) for it in pending}
        assert not any(left.values()), left
        assert history.bound
