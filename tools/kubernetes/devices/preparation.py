"""The kubelet's view of device claims: a pod runs once all its claims are ready for it.

Mirrors the kubelet's PrepareResources: a claim must exist, be allocated and be reserved for the
pod; one that is made from a template must belong to the pod.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from berth.actors.scheduling.kube.claims import controller_uid
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.devices import ResourceClaim
from berth.actors.scheduling.kube.meta import key

from .device_claims import device_claims, is_reserved

FOLLOWED = "ResourceClaim"


class Preparation:
    """The claims of each version of the API, and the pods that wait for them."""

    def __init__(self) -> None:
        self._claims: dict[str, dict[str, ResourceClaim]] = defaultdict(dict)
        self._waiting: dict[str, dict[str, Pod]] = defaultdict(dict)

    def replace(self, claims: Iterable[ResourceClaim], version: str = "v1") -> list[Pod]:
        """Replaces all claims of a version. Returns the waiting pods that may be ready."""
        self._claims[version] = {key(claim): claim for claim in claims}
        waiting = {uid: pod for pods in self._waiting.values() for uid, pod in pods.items()}
        return list(waiting.values())

    def put(self, claim: ResourceClaim, version: str = "v1") -> list[Pod]:
        """Stores a claim. Returns the waiting pods that may be ready."""
        self._claims[version][key(claim)] = claim
        return list(self._waiting.get(key(claim), {}).values())

    def remove(self, claim: ResourceClaim, version: str = "v1") -> None:
        self._claims[version].pop(key(claim), None)

    def wait(self, pod: Pod) -> str:
        """Returns the reason why the pod must wait, or "".

        A later change of its claims then returns the pod.
        """
        why = next(
            filter(None, (self._missing_claim(pod, *claim) for claim in _claims_of(pod))), ""
        )
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

    def _missing_claim(self, pod: Pod, name: str, of_pod: bool) -> str:
        if not name:
            return f'pod "{key(pod)}": ResourceClaim not created yet'
        claim = self._claim(f"{pod.metadata.namespace}/{name}")
        if claim is None:
            return f'fetch ResourceClaim {name}: resourceclaims.resource.k8s.io "{name}" not found'
        uid = pod.metadata.uid
        if of_pod and controller_uid(claim) != uid:
            named = f"ResourceClaim {key(claim)} was not created for Pod {key(pod)}"
            return f"{named} (Pod is not owner)"
        if claim.status.allocation is None:
            return f"ResourceClaim {key(claim)} is not allocated"
        if not is_reserved(claim, pod):
            which = f"resource claim {claim.metadata.name} ({claim.metadata.uid})"
            return f"pod {pod.metadata.name} ({uid}) is not allowed to use {which}"
        return ""

    def _claim(self, place: str) -> ResourceClaim | None:
        """Returns the claim of v1, or else of an older version."""
        claims = (self._claims[version].get(place) for version in sorted(self._claims))
        return next(filter(None, claims), None)


def _claims_of(pod: Pod) -> Iterator[tuple[str, bool]]:
    """Yields the claims of a pod; "" stands for a claim that has not been created yet.

    The second value is True for a claim that must belong to the pod.
    """
    for entry in device_claims(pod):
        if entry.claim is not None:
            yield entry.claim, bool(entry.template)
