"""Suggestions to use another host port, or none."""

from __future__ import annotations

from collections.abc import Iterator

from .change import ProposedChange, Who
from .edit import Document, Edit, Patch, patch_of, put
from .kind_of_change import Way
from .world import World

LAST = 65535


def _ports(pod: Document) -> Iterator[tuple[tuple[str | int, ...], Document]]:
    for part in ("containers", "initContainers"):
        for number, container in enumerate(pod["spec"].get(part) or ()):
            for place, port in enumerate(container.get("ports") or ()):
                if port.get("hostPort"):
                    yield ("spec", part, number, "ports", place), port


def _dropped(path: tuple[str | int, ...]) -> Patch:
    return put(0, *path, "hostPort")


def openings(world: World) -> Iterator[Edit]:
    for path, _ in _ports(world.pod):
        yield patch_of(world.pod, _dropped(path))


def changes(world: World) -> Iterator[ProposedChange]:
    pod = world.pod
    on_host = bool(pod["spec"].get("hostNetwork"))
    for path, port in _ports(pod):
        with world.changed([patch_of(pod, _dropped(path))]):
            if not world.fits():
                continue
        number, what = port["hostPort"], f"host port {port['hostPort']}"
        free = _unused_port(world, number)
        if free is not None:
            patch = put(free, *path, "hostPort")
            if on_host:  # The container's port is the same one.
                patch += put(free, *path, "containerPort")
            sentence = f"Use the host port {free} instead of {number}"
            yield ProposedChange("port", Who.OWNER, 0.2, sentence, (patch_of(pod, patch),))
        if not on_host:
            edit = patch_of(pod, _dropped(path))
            yield ProposedChange("port", Who.OWNER, 0.4, f"Drop the {what}", (edit,))


def _unused_port(world: World, port: int) -> int | None:
    """Returns the next port that no pod uses."""
    used = {number for info in world.node_infos() for _, number in info.ports}
    used |= {port["hostPort"] for _, port in _ports(world.pod)}
    return next((number for number in range(port + 1, LAST + 1) if number not in used), None)


WAY = Way(changes, openings)
