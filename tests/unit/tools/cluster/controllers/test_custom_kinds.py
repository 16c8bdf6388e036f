"""The garbage collector with custom kinds: as owners, and as dependents."""

from __future__ import annotations

from typing import Any

from berth.actors.client.rest import ApiError
from berth.tools.cluster.controllers.controller_manager import run_controllers
from tests.kit.cluster import Cluster, cluster, path_of, poll
from tests.kit.custom_kinds import GROUP, SHIRTS, definition, shirt
from tests.kit.documents import Document, thing
from tests.kit.virtual_loop import in_virtual_time


def owned_by(owner: Document) -> list[Document]:
    kept = ("apiVersion", "kind")
    metadata = owner["metadata"]
    named = {"name": metadata["name"], "uid": metadata["uid"]}
    return [{**{field: owner[field] for field in kept}, **named}]


async def gone(running: Cluster, path: str) -> None:
    """Waits until there is nothing at a path."""

    async def look() -> bool | None:
        try:
            await running.client.call("GET", path, dict)
        except ApiError as refusal:
            return True if refusal.code == 404 else None
        return None

    await poll(look)


@in_virtual_time
async def test_dependents_go_with_their_owners_of_custom_kinds() -> None:
    async with cluster() as running:
        await running.start(run_controllers)
        call: Any = running.client.call
        await running.create("CustomResourceDefinition", definition())
        owner = await call("POST", SHIRTS, dict, shirt("owner"))
        await running.create(
            "ConfigMap", thing("ConfigMap", "mine", ownerReferences=owned_by(owner))
        )
        below = shirt("below", metadata={"ownerReferences": owned_by(owner)})
        await call("POST", SHIRTS, dict, below)
        await call("DELETE", f"{SHIRTS}/owner", dict, {"propagationPolicy": "Background"})
        await gone(running, path_of("ConfigMap", "mine"))
        await gone(running, f"{SHIRTS}/below")


@in_virtual_time
async def test_custom_objects_go_with_owners_of_other_kinds() -> None:
    async with cluster() as running:
        await running.create("CustomResourceDefinition", definition())
        await running.start(run_controllers)
        owner = await running.create("ConfigMap", thing("ConfigMap", "owner"))
        below = shirt("below", metadata={"ownerReferences": owned_by(owner)})
        await running.client.call("POST", SHIRTS, dict, below)
        await running.delete("ConfigMap", "owner")
        await gone(running, f"{SHIRTS}/below")
        await running.delete("CustomResourceDefinition", f"shirts.{GROUP}")
        await gone(running, path_of("CustomResourceDefinition", f"shirts.{GROUP}"))
