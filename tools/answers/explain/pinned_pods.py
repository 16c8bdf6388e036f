"""Pods with claims that get no volume: because the pod names its node itself while the claim waits
for a scheduler to choose one, or because the claim has a selector, which provisioners refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from berth.actors.scheduling.kube.annotations import SELECTED_NODE
from berth.actors.scheduling.kube.volumes import NO_PROVISIONER

from .words import listed

Document = dict[str, Any]
Find = Callable[[str, str, str], Document | None]  # an object by kind, name and namespace
LATE = "WaitForFirstConsumer"


def claims_without_node(pod: Document, documents: Sequence[Document]) -> list[str]:
    """Names the claims of a pod that get no volume because the pod already has a node: a sentence
    without its subject, or none.
    """
    names = waiting_claims(pod, documents)
    if not names:
        return []
    claims = f"claim {names[0]}, which waits"
    if len(names) > 1:
        claims = f"claims {listed(names)}, which wait"
    late = f"waits for its {claims} until a scheduler chooses the node of the first consumer"
    return [f"{late}: as spec.nodeName is set, none will"]


def waiting_claims(pod: Document, documents: Sequence[Document]) -> list[str]:
    """Returns the claims of a pod that get no volume because the pod has a node: a claim that waits
    for its first consumer gets a volume once a scheduler has chosen the consumer's node.
    """
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    names = set(_claim_names(pod))
    if not names or not spec.get("nodeName") or status.get("phase", "Pending") != "Pending":
        return []
    namespace = pod["metadata"].get("namespace")
    late = {
        document["metadata"]["name"]
        for document in documents
        if document["kind"] == "StorageClass" and document.get("volumeBindingMode") == LATE
    }
    names -= {name for other in documents for name in _claims_to_be_placed(other, namespace)}
    return sorted(
        document["metadata"]["name"]
        for document in documents
        if document["kind"] == "PersistentVolumeClaim"
        and document["metadata"].get("namespace") == namespace
        and document["metadata"]["name"] in names
        and _waits_for_consumer(document, late)
    )


def claims_without_maker(
    pod: Document, find: Find, every: Callable[[str], Iterable[Document]]
) -> tuple[str, ...]:
    """Returns the names of the claims for which nothing makes a volume, because they have a
    selector; none for a pod with a node. `every` returns the objects of a kind.
    """
    namespace = pod["metadata"].get("namespace") or ""
    if (pod.get("spec") or {}).get("nodeName"):
        return ()
    claims = (find("PersistentVolumeClaim", name, namespace) for name in set(_claim_names(pod)))
    return tuple(
        sorted(
            claim["metadata"]["name"]
            for claim in claims
            if claim is not None and _has_no_maker(claim, find, every)
        )
    )


def waits_for_volume(claims: Sequence[str]) -> str:
    """Says that nothing makes the volumes of these claims of a pod: a sentence without subject."""
    of = f"claims {listed(claims)}" if len(claims) > 1 else f"claim {claims[0]}"
    why = "nothing makes one for a claim with a selector, so that one which matches has to exist"
    return f"waits for a volume of its {of}: {why}"


def _has_no_maker(claim: Document, find: Find, every: Callable[[str], Iterable[Document]]) -> bool:
    """True if a claim has a selector, and its node is selected or its class has no volume left.
    VolumeBinding decides whether a volume that is left suits it.
    """
    spec = claim.get("spec") or {}
    if spec.get("selector") is None or spec.get("volumeName"):
        return False
    if node_without_volume(claim):
        return True
    name = spec.get("storageClassName") or ""
    storage_class = find("StorageClass", name, "")
    if storage_class is None or storage_class.get("volumeBindingMode") != LATE:
        return False
    if storage_class.get("provisioner") == NO_PROVISIONER:
        return False
    return not any(_has_free_volume(volume, claim) for volume in every("PersistentVolume"))


def _has_free_volume(volume: Document, claim: Document) -> bool:
    of, mine = volume.get("spec") or {}, claim["metadata"]
    if (of.get("storageClassName") or "") != claim["spec"].get("storageClassName"):
        return False
    holder = of.get("claimRef")
    return holder is None or all(holder.get(key) == mine.get(key) for key in ("namespace", "name"))


def node_without_volume(claim: Document) -> str:
    """Returns the node that is selected for a claim and where no volume is made, as the claim has a
    selector and provisioners refuse those; otherwise "".
    """
    spec, annotations = claim.get("spec") or {}, claim["metadata"].get("annotations") or {}
    if spec.get("selector") is None or spec.get("volumeName"):
        return ""
    node: str = annotations.get(SELECTED_NODE) or ""
    return node


def _waits_for_consumer(claim: Document, late: set[str]) -> bool:
    spec, annotations = claim["spec"], claim["metadata"].get("annotations") or {}
    chosen = spec.get("volumeName") or annotations.get(SELECTED_NODE)
    return not chosen and spec.get("storageClassName") in late


def _claims_to_be_placed(pod: Document, namespace: str | None) -> Iterator[str]:
    """Yields the claims whose node a scheduler will choose, together with that of a pod without
    one.
    """
    nearby = pod["kind"] == "Pod" and pod["metadata"].get("namespace") == namespace
    if nearby and not (pod.get("spec") or {}).get("nodeName"):
        yield from _claim_names(pod)


def _claim_names(pod: Document) -> Iterator[str]:
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        if volume.get("persistentVolumeClaim"):
            yield volume["persistentVolumeClaim"]["claimName"]
        elif volume.get("ephemeral"):
            yield f"{pod['metadata']['name']}-{volume['name']}"
