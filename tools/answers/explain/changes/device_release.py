"""Suggestions to free the devices of another claim."""

from __future__ import annotations

from collections.abc import Iterator

from ....kubernetes.api.types.api_documents import key_of
from .change import ProposedChange, Who
from .edit import Document, Edit, patch_of, removal
from .kind_of_change import Way
from .world import World

MOST_CLAIMS = 200


def _claims_with_devices(world: World) -> list[Document]:
    """Returns the other claims that hold devices, by name."""
    status = world.pod.get("status") or {}
    own = {entry.get("resourceClaimName") for entry in status.get("resourceClaimStatuses") or ()}
    own |= {entry.get("resourceClaimName") for entry in world.pod["spec"]["resourceClaims"]}
    namespace = world.pod["metadata"].get("namespace")
    claims = [
        claim
        for claim in world.every("ResourceClaim")
        if (claim.get("status") or {}).get("allocation")
        and not (claim["metadata"]["name"] in own and claim["metadata"]["namespace"] == namespace)
    ]
    return sorted(claims, key=lambda c: (c["metadata"]["namespace"], c["metadata"]["name"]))


def _release_of(claim: Document) -> Edit:
    status = claim["status"]
    parts = [part for part in ("allocation", "reservedFor") if part in status]
    return patch_of(claim, *(removal("status", part) for part in parts))


def changes(world: World) -> Iterator[ProposedChange]:
    if not world.pod["spec"].get("resourceClaims"):
        return
    claims = _claims_with_devices(world)[:MOST_CLAIMS]
    with world.changed([_release_of(claim) for claim in claims]):
        if not claims or not world.fits():
            return
    for claim in _enough_claims(world, claims):
        sentence = f"Free the devices of the claim {key_of(claim)}"
        yield ProposedChange("device", Who.ADMIN, 0.4, sentence, (_release_of(claim),))
        return


def _enough_claims(world: World, claims: list[Document]) -> Iterator[Document]:
    """Yields one claim after whose release the pod fits, searched by halves."""
    while len(claims) > 1:
        half = len(claims) // 2
        for part in (claims[:half], claims[half:]):
            with world.changed([_release_of(claim) for claim in part]):
                if world.fits():
                    claims = part
                    break
        else:
            return
    yield from claims


WAY = Way(changes)
