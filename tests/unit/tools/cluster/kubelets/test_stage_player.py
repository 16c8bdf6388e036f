"""What a player of stages warns of."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import anyio

from berth.tools.cluster.controllers.embedded_access import EmbeddedAccess
from berth.tools.cluster.kubelets.stage_player import MOST_REPORTED, Player
from berth.tools.cluster.kubelets.write_retries import Writer
from berth.tools.kubernetes.kubelet.stages.actions import Action
from berth.tools.kubernetes.kubelet.stages.go_builtins import Functions
from berth.tools.kubernetes.kubelet.stages.stage import Stage, read
from berth.tools.testing.virtual_time import LoopClock
from tests.kit import documents
from tests.kit.documents import Document
from tests.kit.logs import capture_logs
from tests.kit.stores import fresh_store
from tests.kit.virtual_loop import in_virtual_time


class NoSteps:
    """Stages without steps in Python."""

    def due(self, step: str, document: Document, since: float) -> float | None:
        return None

    def run(self, step: str, document: Document, now: float) -> Iterator[Action]:
        yield from ()

    def functions(self, document: Document, now: float) -> Functions:
        return {}


def broken(name: str) -> Stage:
    """Returns a stage of the pods with this label, whose template gives no document."""
    patch = {"subresource": "status", "root": "status", "template": "- {{ .metadata.name }}"}
    spec = {
        "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
        "selector": {"matchLabels": {"of": name}},
        "next": {"patches": [patch]},
    }
    document = {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": spec,
    }
    return read(document, {"Pod": ()})


@in_virtual_time
async def test_each_problem_of_a_stage_is_told_once_and_only_so_many_are() -> None:
    names = [f"s{number}" for number in range(MOST_REPORTED + 5)]
    writer = Writer(EmbeddedAccess(fresh_store()), LoopClock())
    async with anyio.create_task_group() as group:
        stages = [broken(name) for name in names]
        player = Player(stages, NoSteps(), writer, LoopClock(), Random(1), group)
        with capture_logs() as logs:
            for number, name in enumerate((*names[:2], *names)):
                player.put(documents.pod(f"p{number}", labels={"of": name}, resourceVersion="1"))
                await anyio.sleep(1.0)
        group.cancel_scope.cancel()
    assert [line["event"] for line in logs] == ["stage not played"] * MOST_REPORTED
    assert f"Stage {names[0]}: template: " in logs[0]["error"]
    assert len({line["error"] for line in logs}) == MOST_REPORTED
