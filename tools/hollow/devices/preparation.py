"""Device claims as a kubelet sees them: a pod runs once all of them are ready for it.

Mirrors the kubelet's PrepareResources: a claim must exist, be allocated and be reserved for the
pod; one that is made from a template must belong to the pod.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.meta import key

from ..device_claims import allocation_of, key_of, reserved_for
from ..documents import Document, controller_of, name_of, uid_of

FOLLOWED = "ResourceClaim"


class Preparation:
    """Keeps the claims of each version of the API, and the pods that wait for them."""

    def __init__(self) -> None:
        self._claims: dict[str, dict[str, Document]] = defaultdict(dict)
        self._waiting: dict[str, dict[str, Pod]] = defaultdict(dict)

    def replace(self, claims: Iterable[Document], version: str = "v1") -> list[Pod]:
        """Replaces all claims of a version. Returns the waiting pods that may be ready."""
        self._claims[version] = {key_of(claim): claim for claim in claims}
        found = {uid: pod for pods in self._waiting.values() for uid, pod in pods.items()}
        return list(found.values())

    def put(self, claim: Document, version: str = "v1") -> list[Pod]:
        """Stores a claim. Returns the waiting pods that may be ready."""
        self._claims[version][key_of(claim)] = claim
        return list(self._waiting.get(key_of(claim), {}).values())

    def remove(self, claim: Document, version: str = "v1") -> None:
        self._claims[version].pop(key_of(claim), None)

    def wait(self, pod: Pod) -> str:
        """The reason why the pod must wait, or "".

        A pod that waits is returned when its claims change.
        """
        why = next(filter(None, (self._lacks(pod, *found) for found in _claims_of(pod))), "")
        if not why:
            self.forget(pod)
            return ""
        for name, _ in _claims_of(pod):
            self._waiting[f"{pod.metadata.namespace}/{name}"][pod.metadata.uid] = pod
        return f"prepare dynamic resources: {why}"

    def forget(self, pod: Pod) -> None:
        for name, _ in _claims_of(pod):
            place = f"{pod.metadata.namespace}/{name}"
            if place in self._waiting:
                self._waiting[place].pop(pod.metadata.uid, None)
                if not self._waiting[place]:
                    del self._waiting[place]

    def _lacks(self, pod: Pod, name: str, of_pod: bool) -> str:
        uid = pod.metadata.uid
        if not name:
            return f'pod "{key(pod)}": ResourceClaim not created yet'
        claim = self._claim(f"{pod.metadata.namespace}/{name}")
        if claim is None:
            return f'fetch ResourceClaim {name}: resourceclaims.resource.k8s.io "{name}" not found'
        if of_pod and (controller_of(claim) or {}).get("uid") != uid:
            named = f"ResourceClaim {key_of(claim)} was not created for Pod {key(pod)}"
            return f"{named} (Pod is not owner)"
        if allocation_of(claim) is None:
            return f"ResourceClaim {key_of(claim)} is not allocated"
        if all(consumer.get("uid") != uid for consumer in reserved_for(claim)):
            who = f"pod {pod.metadata.name} ({uid})"
            return f"{who} is not allowed to use resource claim {name_of(claim)} ({uid_of(claim)})"
        return ""

    def _claim(self, key: str) -> Document | None:
        """The claim of v1, or else of an older version."""
        found = (self._claims[version].get(key) for version in sorted(self._claims))
        return next(filter(None, found), None)


def _claims_of(pod: Pod) -> Iterator[tuple[str, bool]]:
    """The claims that a pod uses; "" for one that has not been made yet.

    True beside those that must be its own.
    """
    made = {entry.name: entry.resource_claim_name for entry in pod.status.resource_claim_statuses}
    for entry in pod.spec.resource_claims:
        if entry.resource_claim_name is not None:
            yield entry.resource_claim_name, False
        elif (name := made.get(entry.name, "")) is not None:
            yield name, True
